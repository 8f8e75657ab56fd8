package engine

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// Stats tell what a call used.
type Stats struct {
	// Ticks of fuel that the call took, its limit when it ran out.
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
	// startup are the functions that run once per load, exports those that can be called.
	startup   []string
	exports   map[string]bool
	hasMemory bool

	pristine atomic.Pointer[snapshot]
	idle     chan *instance
	// used are instances that nobody has begun to set back yet. They may stay so as long as
	// others are idle.
	used chan *instance
	// warm tells that Warm is over: until then, more instances would be of no use.
	warm atomic.Bool
	// slots holds a token per instance there is.
	slots chan struct{}
	// dropped counts the instances that were thrown away after a call.
	dropped atomic.Uint64
	// busy are the instances in use, being set back or waited for; peak is the most of
	// them since the last trim.
	busy, peak atomic.Int64

	closed atomic.Bool
	// users counts the owner, calls, and resets under way; the last one frees.
	users atomic.Int64
}

// HasExport reports whether the module exports a function of the name, whatever its
// signature.
func (m *Module) HasExport(name string) bool {
	_, exported := m.exports[name]
	return exported
}

// Exports tells whether the module exports a function that can be called.
func (m *Module) Exports(export string) bool { return m.exports[export] }

// Call runs an export on an input. The output is the caller's. An error is a
// [*CallError], or wraps [ErrClosed].
//
// The context bounds the wait for an instance; a call that has begun ends by itself,
// when its fuel does.
func (m *Module) Call(ctx context.Context, export string, input []byte) ([]byte, Stats, error) {
	if !m.exports[export] {
		return nil, Stats{}, m.callError(export, &failure{Guest, fmt.Errorf("the module has no export of this name that takes nothing and returns nothing or an i32; its author must add it")}, "")
	}
	if len(input) > m.limits.RequestBytes {
		return nil, Stats{}, m.callError(export, &failure{Memory, fmt.Errorf("%w: it has %d bytes, more than %d", ErrRequestTooLarge, len(input), m.limits.RequestBytes)}, "")
	}
	if err := m.enter(); err != nil {
		return nil, Stats{}, err
	}
	i, err := m.acquire(ctx)
	if err != nil {
		m.leave()
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
	// A module that reports an error has returned in good order.
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

// enter counts a user, unless the module is closed.
func (m *Module) enter() error {
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

// leave counts a user off; the last one frees the module.
func (m *Module) leave() {
	if m.users.Add(-1) == 0 {
		// Whoever comes last has nobody to tell; wazero's errors here are those of
		// files, and there are none.
		_ = m.runtime.Close(m.ctx)
	}
}

// Close lets the calls under way end and then frees the module. It does not wait.
func (m *Module) Close(context.Context) error {
	if m.closed.CompareAndSwap(false, true) {
		m.engine.forget(m)
		m.setBack()
		m.leave()
	}
	return nil
}

// begin takes the instance's state as the one in which every call begins.
func (m *Module) begin(i *instance) error {
	s, err := i.snapshot()
	if err != nil {
		return err
	}
	m.pristine.Store(s)
	i.rest()
	return nil
}

// acquire takes an idle instance or makes one, within the bound.
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
		return m.current(i)
	default:
	}
	// Sooner than a new one, and than waiting until the system runs who would do it.
	select {
	case i := <-m.used:
		return m.reuse(i)
	default:
	}
	select {
	case i := <-m.idle:
		return m.current(i)
	case i := <-m.used:
		return m.reuse(i)
	case m.slots <- struct{}{}:
		return m.current(nil)
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for one of %d instances to be free: %w", cap(m.slots), ctx.Err())
	}
}

// current answers with the instance, or with a new one when the instance is nil or was
// set back to a state that is no longer the pristine one. It keeps the slot, unless it
// fails.
func (m *Module) current(i *instance) (*instance, error) {
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
		return nil, fmt.Errorf("making an instance: %w", err)
	}
	return fresh, nil
}

// release gives an instance back. Setting it back takes longer than many calls do, so
// it happens behind the caller's back, unless another caller needs the instance before;
// the caller's count goes over to who does it.
//
// To wake who does it takes as long as a call, too, on the caller's time. So it is done when
// few instances are idle, for all that were used until then.
func (m *Module) release(i *instance, reusable bool) {
	switch {
	case !reusable:
		go m.recycle(i, false)
	case !m.hasMemory:
		m.recycle(i, true)
	default:
		m.used <- i
		// Whoever closes the module sets back what he finds, so it must be looked at last.
		if len(m.idle) <= cap(m.idle)/4 || m.closed.Load() {
			go m.clean()
		}
	}
}

// clean sets the used instances back, and makes one more for the next time unless there
// are enough.
func (m *Module) clean() {
	m.setBack()
	if !m.warm.Load() || m.enter() != nil {
		return
	}
	defer m.leave()
	select {
	case m.slots <- struct{}{}:
	default:
		return
	}
	if fresh, err := m.fork(m.pristine.Load()); err == nil {
		m.idle <- fresh
		return
	}
	// A call that needs one tries again and reports the error.
	<-m.slots
}

// setBack sets used instances back as long as there are some.
func (m *Module) setBack() {
	for {
		select {
		case i := <-m.used:
			m.recycle(i, true)
		default:
			return
		}
	}
}

// reuse makes a used instance ready for the caller. It keeps the slot, unless it fails.
func (m *Module) reuse(i *instance) (*instance, error) {
	defer m.leave()
	defer m.busy.Add(-1)
	if i.restore() {
		return m.current(i)
	}
	i.close()
	m.dropped.Add(1)
	return m.current(nil)
}

// recycle makes an instance ready for the next call, or puts a new one in its place.
func (m *Module) recycle(i *instance, reusable bool) {
	defer m.leave()
	defer m.busy.Add(-1)
	if reusable && i.restore() {
		m.idle <- i // who takes it looks whether its state still is the module's
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

// Warm runs samples and takes the state after them as the one in which every call
// begins. What a language's runtime does at its first allocations then happens once
// per load, not in every call. The samples are repeated until the module's memory has
// grown by a step, within bounds: a runtime grows its heap in large steps, and right
// after one there is room for calls, whose instance is thrown away if they grow it: a
// module whose state ends just in front of a step would lose one with every call.
//
// The samples must be the same for each load, or the module's answers could differ; a
// module that fails at one of them stays as it was. It must be called before the first
// Call.
func (m *Module) Warm(ctx context.Context, samples ...Sample) error {
	if err := m.enter(); err != nil {
		return err
	}
	i, err := m.acquire(ctx)
	if err != nil {
		m.leave()
		return m.callError("warm-up", &failure{Timeout, fmt.Errorf("%w: %w", ErrNoInstance, err)}, "")
	}
	size, ticks := i.size(), uint64(0)
	for range warmRounds {
		for _, s := range samples {
			if !m.exports[s.Export] || len(s.Input) > m.limits.RequestBytes {
				continue
			}
			if _, failed := i.call(s.Export, s.Input); failed != nil && failed.class != Guest {
				err := m.callError(s.Export, failed, printable(i.stderr))
				m.recycle(i, false)
				return err
			}
			ticks += i.stats(m.limits.Fuel).Ticks
			i.forget()
		}
		if i.size() >= size+warmGrowth || ticks > m.limits.StartFuel {
			break
		}
	}
	if err := m.begin(i); err != nil {
		m.recycle(i, false)
		return fmt.Errorf("taking the state to begin with: %w", err)
	}
	m.busy.Add(-1)
	m.idle <- i
	m.warm.Store(true)
	m.leave()
	return nil
}

// trim is [Engine.Trim] for one module.
func (m *Module) trim() {
	if m.enter() != nil {
		return
	}
	defer m.leave()
	m.setBack()
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
		i.rest()
		m.idle <- i
	default:
	}
}

const (
	// warmRounds bounds how often samples are repeated.
	warmRounds = 512
	// warmGrowth is the step to wait for: Go's first large one is twelve pages.
	warmGrowth = 8 * pageBytes
)

// callable tells whether a function has the signature of an Extism export.
func callable(f api.FunctionDefinition) bool {
	results := f.ResultTypes()
	return len(f.ParamTypes()) == 0 && (len(results) == 0 || len(results) == 1 && results[0] == api.ValueTypeI32)
}

// Pool tells of a module's instances.
type Pool struct {
	// Idle ones wait for a call, or to be set back for one; Instances are all there are.
	Idle, Instances int
	// Dropped were thrown away after a call, because it failed or grew their memory.
	Dropped uint64
}

// Pool returns the module's instances at this moment.
func (m *Module) Pool() Pool {
	return Pool{Idle: len(m.idle) + len(m.used), Instances: len(m.slots), Dropped: m.dropped.Load()}
}
