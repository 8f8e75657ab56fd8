package engine

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

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
	idle     chan *instance
	// used are instances that wait for their reset, as long as others are idle.
	used chan *instance
	// isWarm is set after Warm: before, instances would get an outdated state.
	isWarm atomic.Bool
	// slots holds a token for each instance.
	slots chan struct{}
	// dropped counts the instances that were closed after a call.
	dropped atomic.Uint64
	// busy counts the instances that are in use, in a reset or waited for; peak is its
	// maximum since the last trim.
	busy, peak atomic.Int64

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
	i, err := m.acquire(ctx)
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
	// After an error of its own, the module has returned as usual.
	m.release(i, failed == nil || failed.class == Guest)
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
		m.resetUsed()
		m.removeUser()
	}
	return nil
}

// setPristine makes the instance's state the one in which every call begins.
func (m *Module) setPristine(i *instance) error {
	s, err := i.snapshot()
	if err != nil {
		return err
	}
	m.pristine.Store(s)
	i.releasePages()
	return nil
}

// acquire takes an idle instance, or creates one within the bound.
func (m *Module) acquire(ctx context.Context) (*instance, error) {
	for busy := m.busy.Add(1); ; {
		if peak := m.peak.Load(); busy <= peak || m.peak.CompareAndSwap(peak, busy) {
			break
		}
	}
	i, err := m.take(ctx)
	if err != nil {
		m.busy.Add(-1)
	}
	return i, err
}

func (m *Module) take(ctx context.Context) (*instance, error) {
	select {
	case i := <-m.idle:
		return m.ensurePristine(i)
	default:
	}
	// A reset takes less time than a new instance, or than waiting for the goroutine that
	// resets.
	select {
	case i := <-m.used:
		return m.resetForCaller(i)
	default:
	}
	select {
	case i := <-m.idle:
		return m.ensurePristine(i)
	case i := <-m.used:
		return m.resetForCaller(i)
	case m.slots <- struct{}{}:
		return m.ensurePristine(nil)
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for one of %d instances to be free: %w", cap(m.slots), ctx.Err())
	}
}

// ensurePristine returns the instance, or a new one when the instance is nil or has a state
// that is no longer the pristine one. It frees the slot when it fails.
func (m *Module) ensurePristine(i *instance) (*instance, error) {
	pristine := m.pristine.Load()
	if i != nil {
		if i.state == pristine {
			return i, nil
		}
		i.close()
	}
	fresh, err := m.fork(pristine)
	if err != nil {
		<-m.slots
		return nil, fmt.Errorf("creating an instance: %w", err)
	}
	return fresh, nil
}

// release gives an instance back, and passes the caller's use of the module on to the reset.
// A reset takes longer than many calls, so another goroutine does it, or the next caller that
// needs the instance.
//
// Starting that goroutine takes as long as a call, too. So it starts when few instances are
// idle, and resets all used ones.
func (m *Module) release(i *instance, reusable bool) {
	switch {
	case !reusable:
		go m.resetOrReplace(i, false)
	case !m.hasMemory:
		m.resetOrReplace(i, true)
	default:
		m.used <- i
		// Close resets the used instances that it finds, so closed must be read last.
		if len(m.idle) <= cap(m.idle)/4 || m.closed.Load() {
			go m.replenish()
		}
	}
}

// replenish resets the used instances, and creates one more within the bound.
func (m *Module) replenish() {
	m.resetUsed()
	if !m.isWarm.Load() || m.addUser() != nil {
		return
	}
	defer m.removeUser()
	select {
	case m.slots <- struct{}{}:
	default:
		return
	}
	if fresh, err := m.fork(m.pristine.Load()); err == nil {
		m.idle <- fresh
		return
	}
	// The next call that needs an instance tries again and reports the error.
	<-m.slots
}

// resetUsed resets all used instances.
func (m *Module) resetUsed() {
	for {
		select {
		case i := <-m.used:
			m.resetOrReplace(i, true)
		default:
			return
		}
	}
}

// resetForCaller resets a used instance for the caller. It frees the slot when it fails.
func (m *Module) resetForCaller(i *instance) (*instance, error) {
	defer m.removeUser()
	defer m.busy.Add(-1)
	if i.restore() {
		return m.ensurePristine(i)
	}
	i.close()
	m.dropped.Add(1)
	return m.ensurePristine(nil)
}

// resetOrReplace resets an instance for the next call, or replaces it.
func (m *Module) resetOrReplace(i *instance, reusable bool) {
	defer m.removeUser()
	defer m.busy.Add(-1)
	if reusable && i.restore() {
		m.idle <- i // take checks that its state is the pristine one
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
}

// Warm runs samples, and makes the state after them the one in which every call begins. The
// first allocations of a language's runtime then happen once per load and not in every call.
//
// The samples are repeated, within bounds, until the module's memory has grown by a step. A
// runtime grows its heap in large steps, and an instance with a grown memory is dropped. In a
// state just in front of a step, every call would drop its instance.
//
// The samples must be the same for each load, or the module's answers could differ. When one
// fails, or when the context ends, Warm returns an error and the module stays as it was. It also
// stays so, without an error, if the samples take longer than warmTime: a state between would
// depend on the speed of the machine. Warm must be called before the first Call.
func (m *Module) Warm(ctx context.Context, samples ...Sample) error {
	if err := m.addUser(); err != nil {
		return err
	}
	i, err := m.acquire(ctx)
	if err != nil {
		m.removeUser()
		return m.callError("warm-up", &failure{Timeout, fmt.Errorf("%w: %w", ErrNoInstance, err)}, "")
	}
	isWarm, err := m.repeat(ctx, i, samples)
	if err != nil {
		m.resetOrReplace(i, false)
		return err
	}
	m.isWarm.Store(true)
	if !isWarm {
		m.resetOrReplace(i, false)
		return nil
	}
	m.busy.Add(-1)
	m.idle <- i
	m.removeUser()
	return nil
}

// repeat runs samples for [Module.Warm]. It returns false if they take too long.
func (m *Module) repeat(ctx context.Context, i *instance, samples []Sample) (isWarm bool, err error) {
	runtime.LockOSThread() // for its CPU time
	defer runtime.UnlockOSThread()
	began, size, ticks := threadTime(), i.size(), uint64(0)
	for range warmRounds {
		for _, s := range samples {
			if !m.exports[s.Export] || len(s.Input) > m.limits.RequestBytes {
				continue
			}
			if err := ctx.Err(); err != nil {
				return false, err //nolint:wrapcheck // The caller says what was being done.
			}
			if !m.limits.Trusted && threadTime()-began > warmTime {
				return false, nil
			}
			if _, failed := i.call(s.Export, s.Input); failed != nil && failed.class != Guest {
				return false, m.callError(s.Export, failed, printable(i.stderr))
			}
			ticks += i.stats(m.limits.Fuel).Ticks
			i.clearCall()
		}
		if i.size() >= size+warmGrowth || ticks > m.limits.StartFuel {
			break
		}
	}
	if err := m.setPristine(i); err != nil {
		return false, fmt.Errorf("taking the pristine state: %w", err)
	}
	return true, nil
}

// trim implements [Engine.Trim] for a module.
func (m *Module) trim() {
	if m.addUser() != nil {
		return
	}
	defer m.removeUser()
	m.resetUsed()
	peak := m.peak.Swap(m.busy.Load())
	for int64(len(m.slots)) > max(1, peak) {
		select {
		case i := <-m.idle:
			i.close()
			<-m.slots
			continue
		default:
		}
		return // the others are in use
	}
	if peak > 0 {
		return
	}
	select {
	case i := <-m.idle:
		i.releasePages()
		m.idle <- i
	default:
	}
}

const (
	// warmRounds bounds how often samples are repeated.
	warmRounds = 512
	// warmTime bounds the CPU time of all samples.
	warmTime = time.Second
	// warmGrowth is the step to wait for: Go's first large one is twelve pages.
	warmGrowth = 8 * pageBytes
)

// callable reports whether a function has the signature of an Extism export.
func callable(f api.FunctionDefinition) bool {
	results := f.ResultTypes()
	return len(f.ParamTypes()) == 0 && (len(results) == 0 || len(results) == 1 && results[0] == api.ValueTypeI32)
}

// Pool counts a module's instances.
type Pool struct {
	// Idle instances wait for a call or for their reset; Instances are all.
	Idle, Instances int
	// Dropped counts the instances that were closed after a call that failed or grew their
	// memory.
	Dropped uint64
}

// Pool returns the current numbers of the module's instances.
func (m *Module) Pool() Pool {
	return Pool{Idle: len(m.idle) + len(m.used), Instances: len(m.slots), Dropped: m.dropped.Load()}
}
