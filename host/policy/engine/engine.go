package engine

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"
)

// The export names that a metered module has; see package fuel.
const (
	// FuelExport is the global with the fuel left, in parts of ticks.
	FuelExport = "longshore:fuel"
	// FuelParts is the number of parts of a tick.
	FuelParts = 12
	// StackExport is the global with what is left of the stack.
	StackExport = "longshore:stack"
	// LookModule has the function that a module calls when it has used up its slice of the
	// fuel.
	LookModule = "longshore:fuel"
	// LookFunction is the name of that function.
	LookFunction = "look"
	// GlobalExports is the prefix of the names of mutable globals.
	GlobalExports = "longshore:global:"
	// StartExport is what was the module's start function.
	StartExport = "longshore:start"
	// MemoryExport is the module's memory, if it has one.
	MemoryExport = "longshore:memory"
)

// Options of [New].
type Options struct {
	// CacheDir is where compiled modules are kept between runs of the process; no
	// cache when empty. Entries that are damaged, or of another version of the
	// compiler, are thrown away. The directory holds machine code: nobody but the
	// process may be able to write there.
	CacheDir string
	// Compiler compiles modules for the engine, which loads what it leaves behind and
	// compiles none itself but trusted ones; nil compiles in this process.
	Compiler Compiler
	// Workers is the number of goroutines that compile a module, GOMAXPROCS when zero.
	Workers int
	// Log receives the log lines of guests, after the call that wrote them and in its
	// goroutine; may be nil.
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
	if options.CacheDir != "" {
		var err error
		if e.cache, err = openCache(options.CacheDir); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// Close closes all modules; calls under way still end with their answers.
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

func (e *Engine) forget(m *Module) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.modules, m)
}

// Trim gives back memory that nobody needed since the last Trim: of each module it
// drops idle instances beyond the number that were in use at once, though not the last
// one, and lets those of a module that was not called at all give back what they only
// keep to be fast. The owner calls it from time to time, say once a minute; the engine
// has no clock.
func (e *Engine) Trim() {
	e.mu.Lock()
	modules := make([]*Module, 0, len(e.modules))
	for m := range e.modules {
		modules = append(modules, m)
	}
	e.mu.Unlock()
	for _, m := range modules {
		m.trim()
	}
}

// deliver hands a call's log lines to the sink.
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
// messages. Errors say what the module's author or the operator must do.
func (e *Engine) Compile(ctx context.Context, name string, wasm []byte, limits Limits) (*Module, error) {
	m := &Module{name: name, engine: e, ctx: e.ctx, limits: limits.withDefaults(goruntime.GOMAXPROCS(0)), exports: map[string]bool{}}
	m.users.Store(1)
	if err := m.compile(ctx, wasm); err != nil {
		m.closed.Store(true)
		if m.runtime != nil {
			m.leave()
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
	var outside func(dir string) error
	if m.engine.options.Compiler != nil && !m.limits.Trusted {
		outside = func(dir string) error { return m.engine.options.Compiler(ctx, wasm, dir) }
	}
	err := m.engine.cache.use(wasm, outside, func(c wazero.CompilationCache) error {
		return m.build(ctx, kernel, wasm, c, outside != nil)
	})
	if err != nil {
		return err
	}
	if err := m.inspect(); err != nil {
		return refusal{err}
	}
	m.idle, m.used = make(chan *instance, m.limits.Instances), make(chan *instance, m.limits.Instances)
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
	if err := m.begin(i); err != nil {
		i.close()
		return err
	}
	m.slots <- struct{}{}
	m.idle <- i
	return nil
}

// build makes a runtime with the compiled kernel and guest. Each module has a runtime
// of its own: nothing is shared between modules, and closing one frees all of it. With
// compiled set, the guest is loaded from the cache or not at all.
func (m *Module) build(ctx context.Context, kernel, wasm []byte, c wazero.CompilationCache, compiled bool) error {
	if m.runtime != nil {
		_ = m.runtime.Close(ctx) // of an attempt with a bad cache
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
	if err := instantiateLook(m.ctx, m.runtime); err != nil {
		return err
	}
	var err error
	if m.kernel, err = m.runtime.CompileModule(m.ctx, kernel); err != nil {
		return fmt.Errorf("compiling the kernel: %w", err)
	}
	workers := m.engine.options.Workers
	if compiled {
		ctx, workers = neverCompile(ctx)
	}
	m.guest, err = m.runtime.CompileModule(experimental.WithCompilationWorkers(ctx, workers), wasm)
	if errors.Is(err, errNotCompiled) {
		return errNotCompiled
	}
	if err != nil {
		return invalid(err)
	}
	return nil
}

// inspect looks at what the compiled module imports, exports and needs.
func (m *Module) inspect() error {
	for _, f := range m.guest.ImportedFunctions() {
		module, name, _ := f.Import()
		if module == LookModule {
			continue // metering added it, and refuses modules that have it themselves
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
	// These run when the module starts, or never: a module that has only _start is a
	// program, and running it would run its main function and exit.
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
			return fmt.Errorf("the module has no export %q: it was not metered for this engine", MemoryExport)
		}
		return nil
	}
	m.hasMemory = true
	if need := uint64(memory.Min()) * pageBytes; need > m.limits.MemoryBytes {
		return fmt.Errorf("the module's memory begins with %d MiB, more than its limit of %d MiB; its author must make it smaller, or the operator may raise the limit", need>>20, m.limits.MemoryBytes>>20)
	}
	return nil
}
