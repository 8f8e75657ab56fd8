package engine

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/longshore-dev/longshore/sdk/contract"
)

// The export names that a metered module has; see package fuel.
const (
	// FuelExport is the global with the fuel left, in parts of ticks.
	FuelExport = "longshore:fuel"
	// FuelParts is the number of parts of a tick.
	FuelParts = 12
	// StackExport is the global with the rest of the stack budget.
	StackExport = "longshore:stack"
	// RefuelModule has the function that a module calls when it has used up its slice of the
	// fuel.
	RefuelModule = "longshore:fuel"
	// RefuelFunction is the name of that function.
	RefuelFunction = "refuel"
	// GlobalExports is the prefix of the names of mutable globals.
	GlobalExports = "longshore:global:"
	// StartExport is the module's former start function.
	StartExport = "longshore:start"
	// MemoryExport is the module's memory, if it has one.
	MemoryExport = "longshore:memory"
)

// Options of [New].
type Options struct {
	// CacheDir keeps compiled modules between runs of the process; empty disables the
	// cache. Entries that are damaged, or of another version of the compiler, are removed.
	// The directory holds machine code: only the process's user may have access.
	CacheDir string
	// PrecompiledDir holds modules that were compiled when the program was packaged, in the
	// format of the cache. It may be absent. Only root or the process's user may write to it.
	PrecompiledDir string
	// Compiler compiles all modules but trusted ones, of which the engine loads the machine
	// code; nil compiles in this process.
	Compiler Compiler
	// Workers is the number of goroutines that compile a module, GOMAXPROCS when zero.
	Workers int
	// Log receives the log lines of guests, after the call that wrote them and in its
	// goroutine. Optional.
	Log func(Line)
}

// Engine compiles modules. It is safe for concurrent use.
type Engine struct {
	options Options
	ctx     context.Context
	cache   *cache

	mu      sync.Mutex
	modules map[*Module]struct{}
	closed  bool
}

// New returns an engine. The context's values, not its end, go to the sandboxes.
func New(ctx context.Context, options Options) (*Engine, error) {
	if options.Workers <= 0 {
		options.Workers = goruntime.GOMAXPROCS(0)
	}
	e := &Engine{options: options, ctx: context.WithoutCancel(ctx), modules: map[*Module]struct{}{}}
	var err error
	if e.cache, err = openCache(options.CacheDir, options.PrecompiledDir); err != nil {
		return nil, err
	}
	return e, nil
}

// Close closes all modules. Running calls still end with their answers.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	modules := e.modules
	e.modules, e.closed = map[*Module]struct{}{}, true
	e.mu.Unlock()
	var errs []error
	for m := range modules {
		errs = append(errs, m.Close(ctx))
	}
	return errors.Join(errs...)
}

func (e *Engine) removeModule(m *Module) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.modules, m)
}

// deliver passes a call's log lines to Options.Log.
func (e *Engine) deliver(module, point string, lines []Line) {
	if e.options.Log == nil {
		return
	}
	for _, l := range lines {
		l.Module, l.Point = module, point
		e.options.Log(l)
	}
}

// Compile compiles a metered module and starts one instance of it. The name is for
// messages. Errors name the action of the module's author or of the operator.
func (e *Engine) Compile(ctx context.Context, name string, wasm []byte, limits Limits) (*Module, error) {
	m := &Module{name: name, engine: e, ctx: e.ctx, limits: limits.withDefaults(goruntime.GOMAXPROCS(0)), exports: map[string]bool{}}
	m.users.Store(1)
	if err := m.compile(ctx, wasm); err != nil {
		m.closed.Store(true)
		if m.runtime != nil {
			m.removeUser()
		}
		return nil, fmt.Errorf("compiling the module: %w", err)
	}
	e.mu.Lock()
	closed := e.closed
	if !closed {
		e.modules[m] = struct{}{}
	}
	e.mu.Unlock()
	if closed {
		return nil, errors.Join(errors.New("the policy engine is closed"), m.Close(ctx))
	}
	return m, nil
}

func (m *Module) compile(ctx context.Context, wasm []byte) error {
	kernel := kernel(m.limits.kernelPages())
	var compileInto func(dir string) error
	if m.engine.options.Compiler != nil && !m.limits.Trusted {
		compileInto = func(dir string) error { return m.engine.options.Compiler(ctx, wasm, dir) }
	}
	err := m.engine.cache.build(wasm, compileInto, func(c wazero.CompilationCache) error {
		return m.build(ctx, kernel, wasm, c, compileInto != nil)
	})
	if err != nil {
		return err
	}
	if err := m.inspect(); err != nil {
		return refusal{err}
	}
	m.idle = make(chan *instance, m.limits.Instances)
	m.slots = make(chan struct{}, m.limits.Instances)
	i, err := m.newInstance()
	if err != nil {
		return err
	}
	if failed := i.start(); failed != nil {
		err := m.callError("_initialize", failed, printable(i.stderr))
		i.close()
		return err
	}
	m.pristine.Store(i.snapshot())
	m.slots <- struct{}{}
	m.idle <- i
	return nil
}

// build creates a runtime with the compiled kernel and guest. Each module has its own
// runtime: modules share nothing, and closing one frees all of it. With isCompiled set, the
// guest must be in the cache.
func (m *Module) build(ctx context.Context, kernel, wasm []byte, c wazero.CompilationCache, isCompiled bool) error {
	if m.runtime != nil {
		_ = m.runtime.Close(ctx) // of an attempt with a damaged cache
	}
	config := runtimeConfig()
	if c != nil {
		config = config.WithCompilationCache(c)
	}
	m.runtime = wazero.NewRuntimeWithConfig(m.ctx, config)
	if err := instantiateWASI(m.ctx, m.runtime); err != nil {
		return err
	}
	if err := instantiateKernelHost(m.ctx, m.runtime); err != nil {
		return err
	}
	if err := instantiateRefuel(m.ctx, m.runtime); err != nil {
		return err
	}
	var err error
	if m.kernel, err = m.runtime.CompileModule(m.ctx, kernel); err != nil {
		return fmt.Errorf("compiling the kernel: %w", err)
	}
	workers := m.engine.options.Workers
	if isCompiled {
		ctx, workers = withoutCompiling(ctx)
	}
	m.guest, err = m.runtime.CompileModule(experimental.WithCompilationWorkers(ctx, workers), wasm)
	if errors.Is(err, ErrNotCompiled) {
		return ErrNotCompiled
	}
	if err != nil {
		return invalid(err)
	}
	return nil
}

// inspect checks the imports, exports and memory of the compiled module.
func (m *Module) inspect() error {
	for _, f := range m.guest.ImportedFunctions() {
		module, name, _ := f.Import()
		if module == RefuelModule {
			continue // metering added it, and refuses modules that have it
		}
		if err := CheckImport(module, name); err != nil {
			return err
		}
	}
	if len(m.guest.ImportedMemories()) > 0 {
		return errors.New("the module imports a memory; its author must build it with a memory of its own")
	}
	exported := m.guest.ExportedFunctions()
	for name, f := range exported {
		m.exports[name] = callable(f)
	}
	initialize := "_initialize"
	if exported[initialize] == nil {
		initialize = "__wasm_call_ctors"
	}
	for _, name := range []string{StartExport, initialize} {
		switch f := exported[name]; {
		case f == nil:
		case !callable(f):
			return fmt.Errorf("the module's %s takes parameters; its author must build it as a WASI reactor", name)
		default:
			m.startup = append(m.startup, name)
		}
	}
	// These run when the module starts, or never: _start would run a program's main function
	// and exit.
	for _, name := range []string{StartExport, "_initialize", "__wasm_call_ctors", "_start"} {
		m.exports[name] = false
	}
	return m.inspectMemory()
}

func (m *Module) inspectMemory() error {
	memories := m.guest.ExportedMemories()
	memory, ok := memories[MemoryExport]
	if !ok {
		if len(memories) > 0 {
			return fmt.Errorf("the module has no export %q: %w", MemoryExport, ErrNotMetered)
		}
		return nil
	}
	m.hasMemory = true
	if need := uint64(memory.Min()) * pageBytes; need > m.limits.MemoryBytes {
		return fmt.Errorf("the module's memory begins with %d MiB, more than its limit of %d MiB; its author must make it smaller%s", need>>20, m.limits.MemoryBytes>>20, raiseHint(m.limits.MemoryBytes, contract.MaxMemoryBytes))
	}
	return nil
}
