package engine

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/sys"

	"github.com/longshore-dev/longshore/host/kit/plaintext"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// environment is the state of the clock and of the random numbers that a guest sees. It is
// part of the snapshot.
type environment struct {
	// now is the clock, in nanoseconds.
	now uint64
	// random is the state of the random numbers.
	random uint64
}

// instance is a sandbox: a guest and its kernel. It serves one call at a time.
type instance struct {
	module *Module
	// ctx carries the instance to host functions. It has no deadline of a caller: fuel ends a
	// call.
	ctx           context.Context
	kernel, guest api.Module
	kernelMemory  *memory
	guestMemory   *memory
	functions     map[string]api.Function
	stack         [1]uint64

	fuel, stackLeft api.MutableGlobal
	meter           meter
	global          struct{ inputLength, top, outputOffset, outputLength, failure, fault api.MutableGlobal }
	// mutable are the guest's own mutable globals, by index.
	mutable []api.MutableGlobal

	environment environment
	// state is the snapshot that the instance was last reset to.
	state *snapshot
	// The other fields are empty at the beginning of each call.
	stderr        []byte
	lines         []Line
	droppedLines  int
	variables     map[string][]byte
	variableBytes int
	deniedRequest string
}

// newInstance instantiates kernel and guest without running any of the guest's code.
func (m *Module) newInstance() (*instance, error) {
	i := &instance{module: m, functions: map[string]api.Function{}, environment: environment{now: clockStart}}
	i.ctx = context.WithValue(m.ctx, instanceKey{}, i)
	if err := i.instantiate(); err != nil {
		i.close()
		return nil, err
	}
	return i, nil
}

func (i *instance) instantiate() error {
	m := i.module
	var err error
	if i.kernelMemory, err = newMemory(uint64(m.limits.kernelPages()) * pageBytes); err != nil {
		return err
	}
	if i.kernel, err = m.runtime.InstantiateModule(withMemory(i.ctx, i.kernelMemory), m.kernel, unnamed()); err != nil {
		return fmt.Errorf("instantiating the kernel: %w", err)
	}
	if m.hasMemory {
		if i.guestMemory, err = newMemory(m.limits.MemoryBytes); err != nil {
			return err
		}
	} else {
		i.guestMemory = &memory{}
	}
	ctx := experimental.WithImportResolver(withMemory(i.ctx, i.guestMemory), func(name string) api.Module {
		if name == extismModule {
			return i.kernel
		}
		return nil
	})
	if i.guest, err = m.runtime.InstantiateModule(ctx, m.guest, unnamed()); err != nil {
		return refusal{fmt.Errorf("instantiating the module; its author must rebuild it: %w", err)}
	}
	return i.findGlobals()
}

func withMemory(ctx context.Context, m *memory) context.Context {
	return experimental.WithMemoryAllocator(ctx, experimental.MemoryAllocatorFunc(func(_, _ uint64) experimental.LinearMemory { return m }))
}

func unnamed() wazero.ModuleConfig {
	return wazero.NewModuleConfig().WithName("").WithStartFunctions()
}

// findGlobals finds the globals that the host reads and writes.
func (i *instance) findGlobals() error {
	var missing error
	find := func(m api.Module, name string) api.MutableGlobal {
		g, ok := m.ExportedGlobal(name).(api.MutableGlobal)
		if !ok && missing == nil {
			missing = fmt.Errorf("the module has no mutable global %q: %w", name, ErrNotMetered)
		}
		return g
	}
	i.global.inputLength = find(i.kernel, "global.input_length")
	i.global.top = find(i.kernel, "global.top")
	i.global.outputOffset = find(i.kernel, "global.output_offset")
	i.global.outputLength = find(i.kernel, "global.output_length")
	i.global.failure = find(i.kernel, "global.failure")
	i.global.fault = find(i.kernel, "global.fault")
	i.fuel = find(i.guest, FuelExport)
	i.stackLeft = find(i.guest, StackExport)
	all, ok := i.guest.(experimental.InternalModule)
	if !ok {
		return errors.New("this version of wazero does not report the number of globals of a module")
	}
	for n := range all.NumGlobal() {
		if g, ok := i.guest.ExportedGlobal(GlobalExports + strconv.Itoa(n)).(api.MutableGlobal); ok {
			i.mutable = append(i.mutable, g)
		}
	}
	return missing
}

// close frees the instance. Its memories must not be used afterwards.
func (i *instance) close() {
	// Closing anonymous modules of our own cannot fail: they hold no files.
	if i.guest != nil {
		_ = i.guest.Close(i.ctx)
	}
	if i.kernel != nil {
		_ = i.kernel.Close(i.ctx)
	}
	for _, m := range []*memory{i.guestMemory, i.kernelMemory} {
		if m != nil {
			m.Free()
		}
	}
}

// size returns the size of the guest's linear memory in bytes.
func (i *instance) size() uint64 {
	if i.module.hasMemory {
		return uint64(i.guest.Memory().Size())
	}
	return 0
}

// run calls an exported function without parameters and classifies its failure. The result
// is that of the function, or 0.
func (i *instance) run(export string, fuel uint64, limit time.Duration) (uint32, *failure) {
	f := i.functions[export]
	if f == nil {
		f = i.guest.ExportedFunction(export)
		i.functions[export] = f
	}
	i.startMeter(fuel, limit)
	defer i.stopMeter()
	i.stack[0] = 0
	if err := f.CallWithStack(i.ctx, i.stack[:]); err != nil {
		return 0, i.failed(err, fuel)
	}
	return uint32(i.stack[0]), nil
}

// call answers one request. The output shares memory with the instance.
func (i *instance) call(export string, input []byte) ([]byte, *failure) {
	copy(i.kernelMemory.reserved[inputOffset:], input)
	i.global.inputLength.Set(uint64(len(input)))
	i.global.top.Set(blockEnd(inputOffset + uint64(len(input))))
	status, failed := i.run(export, i.module.limits.Fuel, i.module.limits.Time)
	if failed != nil {
		return nil, failed
	}
	if i.global.failure.Get() != 0 {
		return nil, &failure{Guest, fmt.Errorf("the module reported: %s", plaintext.Line(string(i.reportedError())))}
	}
	if status != 0 {
		return nil, &failure{Guest, i.withGuestMessage(fmt.Sprintf("the module returned %d without an error message; its author should report the error", int32(status)))}
	}
	return i.output()
}

// output returns the answer, after checking the range that the guest set.
func (i *instance) output() ([]byte, *failure) {
	offset, length := i.global.outputOffset.Get(), i.global.outputLength.Get()
	top := i.global.top.Get()
	limit := uint64(i.module.limits.ResponseBytes)
	switch {
	case length == 0:
		return nil, &failure{BadOutput, i.withGuestMessage("the module returned without an answer; its author must set an output on every path")}
	case length > limit:
		return nil, &failure{BadOutput, fmt.Errorf("the answer has %d bytes, more than %d; the module's author must answer less", length, limit)}
	case offset < inputOffset || offset > top || length > top-offset:
		return nil, &failure{BadOutput, fmt.Errorf("the answer of %d bytes at address %d lies outside the memory that the module was given; its author must set the output to an allocated block", length, offset)}
	}
	return i.kernelMemory.reserved[offset : offset+length], nil
}

// reportedError returns the beginning of the error that the guest has set.
func (i *instance) reportedError() []byte {
	message := i.block(i.global.failure.Get())
	return message[:min(len(message), maxLineBytes)]
}

// failure is the reason why a call failed, without module and export.
type failure struct {
	class Class
	err   error
}

// failed classifies the failure of a function that did not return.
func (i *instance) failed(err error, budget uint64) *failure {
	line := firstLine(err)
	var exit *sys.ExitError
	switch {
	case i.global.fault.Get() == faultDenied:
		return &failure{Denied, errors.New("the module calls http_request, but policies have no network: everything a policy may know is in the request; its author must remove the call")}
	case i.meter.isLate:
		return &failure{Timeout, fmt.Errorf("%w: it ran for more than %v and was stopped; its author should make it faster", ErrCallTime, i.meter.limit)}
	case i.fuelLeft() < 0:
		return &failure{Timeout, i.withGuestMessage(fmt.Sprintf("it used up its fuel of %d ticks and was stopped; its author should look for an endless loop or recursion%s", budget, raiseHint(budget, contract.MaxFuel)))}
	case i.global.fault.Get() == faultMemory:
		return &failure{Memory, fmt.Errorf("it allocated more than %d bytes for input, answer and messages; the module's author must allocate less", uint64(i.module.limits.kernelPages())*pageBytes)}
	case i.guestMemory.isRefused:
		return &failure{Memory, i.withGuestMessage(fmt.Sprintf("it needed more than its %d MiB of memory; its author must use less%s", i.module.limits.MemoryBytes>>20, raiseHint(i.module.limits.MemoryBytes, contract.MaxMemoryBytes)))}
	case i.global.fault.Get() == faultRange:
		return &failure{Trap, errors.New("the module crashed: it loaded or stored outside the blocks that alloc gave it; its author must correct the address")}
	case errors.As(err, &exit) && exit.ExitCode() == 0:
		return &failure{BadOutput, i.withGuestMessage("the module exited with status 0 instead of returning an answer; its author must return from the export")}
	case errors.As(err, &exit):
		return &failure{Trap, i.withGuestMessage(fmt.Sprintf("the module exited with status %d instead of returning an answer; its author must return from the export", exit.ExitCode()))}
	case int64(i.stackLeft.Get()) < 0, strings.HasPrefix(line, "stack overflow"):
		return &failure{Trap, i.withGuestMessage("the module crashed: its call stack is exhausted; its author should look for an endless recursion")}
	default:
		return &failure{Trap, i.withGuestMessage("the module crashed: " + line + "; its author must correct it")}
	}
}

// withGuestMessage adds to a message the error that the guest had set when it gave up, or
// otherwise its standard error.
func (i *instance) withGuestMessage(message string) error {
	if text := panicText(printable(i.reportedError())); text != "" {
		return fmt.Errorf("%s; it reported: %s", message, text)
	}
	if text := panicText(printable(i.stderr)); text != "" {
		return fmt.Errorf("%s; it wrote: %s", message, text)
	}
	return errors.New(message)
}

// printable returns text of a guest for logs and messages.
func printable(text []byte) string { return plaintext.Lines(string(text)) }
