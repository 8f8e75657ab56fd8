package engine

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// Stats are the resources that a call used.
type Stats struct {
	// Ticks of fuel, the limit when the fuel was used up.
	Ticks uint64
	// MemoryBytes is the size of the guest's linear memory after the call.
	MemoryBytes uint64
	// LogLines is the number of log lines written, dropped ones included.
	LogLines int
}

// Module is a compiled module with its pool of instances. It is safe for concurrent
// use; calls run in parallel up to Limits.Instances.
type Module struct {
	name    string
	engine  *Engine
	ctx     context.Context
	limits  Limits
	runtime wazero.Runtime
	kernel  wazero.CompiledModule
	guest   wazero.CompiledModule
	// startup are the functions that run once per load, exports are all others; the value
	// reports whether a call has the right signature.
	startup   []string
	exports   map[string]bool
	hasMemory bool

	pristine atomic.Pointer[snapshot]
	// idle are the instances in a pristine state.
	idle chan *instance
	// slots holds a token for each instance.
	slots chan struct{}
	// dropped counts the instances that were closed after a call.
	dropped atomic.Uint64

	closed atomic.Bool
	// users counts the owner, calls and resets. The last one frees the module.
	users atomic.Int64
}

// HasExport reports whether the module exports a function of the name, whatever its
// signature.
func (m *Module) HasExport(name string) bool {
	_, exported := m.exports[name]
	return exported
}

// Exports reports whether the module exports a function that can be called.
func (m *Module) Exports(export string) bool { return m.exports[export] }

// Call calls an export with an input. The caller owns the output. An error is a
// [*CallError], or wraps [ErrClosed].
//
// The context bounds the wait for an instance. A call that has begun ends with its fuel.
func (m *Module) Call(ctx context.Context, export string, input []byte) ([]byte, Stats, error) {
	if !m.exports[export] {
		return nil, Stats{}, m.callError(export, &failure{Guest, fmt.Errorf("the module has no export of this name that takes nothing and returns nothing or an i32; its author must add it")}, "")
	}
	if len(input) > m.limits.RequestBytes {
		return nil, Stats{}, m.callError(export, &failure{Memory, fmt.Errorf("%w: it has %d bytes, more than %d", ErrRequestTooLarge, len(input), m.limits.RequestBytes)}, "")
	}
	if err := m.addUser(); err != nil {
		return nil, Stats{}, err
	}
	i, err := m.take(ctx)
	if err != nil {
		m.removeUser()
		return nil, Stats{}, m.callError(export, &failure{Timeout, fmt.Errorf("%w: %w", ErrNoInstance, err)}, "")
	}
	output, failed := i.call(export, input)
	output = append([]byte(nil), output...)
	stats := i.stats(m.limits.Fuel)
	lines := i.lines
	var callErr error
	if failed != nil {
		callErr = m.callError(export, failed, printable(i.stderr))
	} else if len(i.stderr) > 0 {
		lines = append(lines, Line{Level: LevelDebug, Message: printable(i.stderr)})
	}
	// A reset takes longer than many calls, so the caller does not wait for it. After an error of
	// its own, the module has returned as usual.
	go m.resetOrReplace(i, failed == nil || failed.class == Guest)
	m.engine.deliver(m.name, export, lines)
	if callErr != nil {
		return nil, stats, callErr
	}
	return output, stats, nil
}

func (i *instance) stats(budget uint64) Stats {
	return Stats{
		Ticks:       budget - uint64(max(0, i.fuelLeft()))/FuelParts,
		MemoryBytes: i.size(),
		LogLines:    len(i.lines) + i.droppedLines,
	}
}

func (m *Module) callError(export string, f *failure, stderr string) error {
	return &CallError{Module: m.name, Point: export, Class: f.class, Err: f.err, Stderr: stderr}
}

// addUser counts a user, unless the module is closed.
func (m *Module) addUser() error {
	for {
		n := m.users.Load()
		if n == 0 || m.closed.Load() {
			return fmt.Errorf("calling policy module %s: %w", m.name, ErrClosed)
		}
		if m.users.CompareAndSwap(n, n+1) {
			return nil
		}
	}
}

// removeUser ends a use. The last user frees the module.
func (m *Module) removeUser() {
	if m.users.Add(-1) == 0 {
		// Errors of wazero here are those of files, and modules have none.
		_ = m.runtime.Close(m.ctx)
	}
}

// Close frees the module after the running calls have ended. It does not wait.
func (m *Module) Close(context.Context) error {
	if m.closed.CompareAndSwap(false, true) {
		m.engine.removeModule(m)
		m.removeUser()
	}
	return nil
}

// take takes an idle instance, or creates one within the bound.
func (m *Module) take(ctx context.Context) (*instance, error) {
	for {
		var i *instance
		select {
		case i = <-m.idle:
		default:
			select {
			case i = <-m.idle:
			case m.slots <- struct{}{}:
				fresh, err := m.fork(m.pristine.Load())
				if err != nil {
					<-m.slots
					return nil, fmt.Errorf("creating an instance: %w", err)
				}
				return fresh, nil
			case <-ctx.Done():
				return nil, fmt.Errorf("waiting for one of %d instances to be free: %w", cap(m.slots), ctx.Err())
			}
		}
		if i.state == m.pristine.Load() {
			return i, nil
		}
		i.close() // it was in use when the module was warmed up
		<-m.slots
	}
}

// resetOrReplace resets an instance for the next call, or replaces it, and ends the caller's use of
// the module.
func (m *Module) resetOrReplace(i *instance, reusable bool) {
	defer m.removeUser()
	if reusable && i.restore() {
		m.idle <- i // take checks that its state is still the pristine one
		return
	}
	i.close()
	m.dropped.Add(1)
	if fresh, err := m.fork(m.pristine.Load()); err == nil && !m.closed.Load() {
		m.idle <- fresh
		return
	} else if err == nil {
		fresh.close()
	}
	// The next call tries again and reports the error.
	<-m.slots
}

// Sample is a call to warm a module up with.
type Sample struct {
	Export string
	Input  []byte
	// Check returns why an answer is not valid, which is then a failure of the sample. It does not keep the answer.
	// Optional.
	Check func(answer []byte) error
}

// Warm runs samples, and makes the state after them the one in which every call begins: the first
// allocations of a language's runtime then happen once per load and not in every call.
//
// The samples must be the same for each load, or the module's answers could differ. When one
// fails, or when the context ends, Warm returns an error and the module stays as it was. Warm must
// be called before other calls.
func (m *Module) Warm(ctx context.Context, samples ...Sample) error {
	if err := m.addUser(); err != nil {
		return err
	}
	i, err := m.take(ctx)
	if err != nil {
		m.removeUser()
		return m.callError("warm-up", &failure{Timeout, fmt.Errorf("%w: %w", ErrNoInstance, err)}, "")
	}
	if err := m.run(ctx, i, samples); err != nil {
		m.resetOrReplace(i, false)
		return err
	}
	m.pristine.Store(i.snapshot())
	m.idle <- i
	m.removeUser()
	return nil
}

// run runs samples for [Module.Warm].
func (m *Module) run(ctx context.Context, i *instance, samples []Sample) error {
	for _, s := range samples {
		if !m.exports[s.Export] || len(s.Input) > m.limits.RequestBytes {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err //nolint:wrapcheck // The caller says what was being done.
		}
		answer, failed := i.call(s.Export, s.Input)
		if failed == nil && s.Check != nil {
			if err := s.Check(answer); err != nil {
				failed = &failure{BadOutput, fmt.Errorf("checking the answer: %w; the module's author must correct it", err)}
			}
		}
		if failed != nil && failed.class != Guest {
			return m.callError(s.Export, failed, printable(i.stderr))
		}
		i.clearCall()
	}
	return nil
}

// callable reports whether a function has the signature of an Extism export.
func callable(f api.FunctionDefinition) bool {
	results := f.ResultTypes()
	return len(f.ParamTypes()) == 0 && (len(results) == 0 || len(results) == 1 && results[0] == api.ValueTypeI32)
}

// Pool counts a module's instances.
type Pool struct {
	// Idle instances wait for a call; Instances are all.
	Idle, Instances int
	// Dropped counts the instances that were closed after a call that failed or grew their
	// memory.
	Dropped uint64
}

// Pool returns the current numbers of the module's instances.
func (m *Module) Pool() Pool {
	return Pool{Idle: len(m.idle), Instances: len(m.slots), Dropped: m.dropped.Load()}
}
