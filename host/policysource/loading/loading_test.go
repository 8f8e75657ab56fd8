package loading_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/policysource/loading"
)

const (
	soon = time.Minute
	tick = time.Millisecond
)

// works are loads whose ends the test decides.
type works struct {
	*loading.Loads[int]
	closed  sync.Map
	ended   atomic.Int64
	started atomic.Int64
	running atomic.Int64
	most    atomic.Int64
}

func newWorks(limit int) *works {
	w := &works{}
	w.Loads = loading.New(limit, func(n int) { w.closed.Store(n, true) }, func() { w.ended.Add(1) })
	return w
}

func (w *works) isClosed(n int) bool {
	_, ok := w.closed.Load(n)
	return ok
}

// begin starts a load that ends with n when it is let, whatever its context says.
func (w *works) begin(ctx context.Context, n int, let <-chan error) *loading.Load[int] {
	return w.Begin(ctx, func(context.Context) (int, error) {
		w.started.Add(1)
		running := w.running.Add(1)
		defer w.running.Add(-1)
		for most := w.most.Load(); running > most && !w.most.CompareAndSwap(most, running); most = w.most.Load() {
		}
		return n, <-let
	})
}

func take(t *testing.T, one *loading.Load[int]) (int, error) {
	t.Helper()
	var loaded int
	var err error
	require.Eventually(t, func() bool {
		var ended bool
		loaded, ended, err = one.Take()
		return ended
	}, soon, tick)
	return loaded, err
}

func TestALoadIsTakenOnceAndOutlivesItsCaller(t *testing.T) {
	w := newWorks(2)
	let := make(chan error, 2)
	ctx, cancel := context.WithCancel(t.Context())
	first := w.begin(ctx, 1, let)
	cancel()
	_, ended, err := first.Take()
	require.NoError(t, err)
	assert.False(t, ended)
	let <- nil
	loaded, err := take(t, first)
	require.NoError(t, err)
	assert.Equal(t, 1, loaded)
	_, ended, err = first.Take()
	require.NoError(t, err)
	assert.False(t, ended, "it is the caller's now")
	w.Drop(first)
	w.Wait()
	assert.False(t, w.isClosed(1))

	let <- errors.New("cut in half")
	_, err = take(t, w.begin(t.Context(), 2, let))
	require.EqualError(t, err, "cut in half")
	w.Wait()
	assert.Equal(t, int64(2), w.ended.Load())
}

func TestOnlySoManyRunAtATime(t *testing.T) {
	w := newWorks(2)
	let := make(chan error)
	all := make([]*loading.Load[int], 10)
	for i := range all {
		all[i] = w.begin(t.Context(), i, let)
	}
	require.Eventually(t, func() bool { return w.running.Load() == 2 }, soon, tick)
	for range all {
		let <- nil
	}
	for i, one := range all {
		loaded, err := take(t, one)
		require.NoError(t, err)
		assert.Equal(t, i, loaded)
	}
	assert.Equal(t, int64(2), w.most.Load())
}

func TestWhatIsDroppedIsClosedOrNeverBegun(t *testing.T) {
	w := newWorks(1)
	let := make(chan error)
	running := w.begin(t.Context(), 1, let)
	require.Eventually(t, func() bool { return w.started.Load() == 1 }, soon, tick)
	waiting := w.begin(t.Context(), 2, let)
	w.Drop(waiting)
	w.Drop(running)
	let <- nil
	w.Wait()
	assert.Equal(t, int64(1), w.started.Load(), "what waited was not begun")
	assert.True(t, w.isClosed(1), "what came of the other is closed")
	assert.Zero(t, w.ended.Load(), "and nobody is told")
	_, ended, _ := running.Take()
	assert.False(t, ended)

	go func() { let <- nil }()
	loaded := w.begin(t.Context(), 3, let)
	w.Wait()
	w.Drop(loaded)
	assert.True(t, w.isClosed(3), "what was loaded and not taken is closed")
	go func() { let <- errors.New("cut in half") }()
	broken := w.begin(t.Context(), 4, let)
	w.Wait()
	w.Drop(broken)
	assert.False(t, w.isClosed(4), "what was not loaded is not")
}

func TestTheContextOfALoadEndsWithIt(t *testing.T) {
	w := newWorks(1)
	ended := make(chan error, 1)
	one := w.Begin(t.Context(), func(ctx context.Context) (int, error) {
		<-ctx.Done()
		ended <- ctx.Err()
		return 0, ctx.Err()
	})
	w.Drop(one)
	w.Wait()
	select {
	case err := <-ended:
		require.ErrorIs(t, err, context.Canceled)
	default: // It was dropped before it began.
	}
}

func TestNothingRunsAfterStop(t *testing.T) {
	w := newWorks(2)
	begin := func(n int) *loading.Load[int] {
		return w.Begin(t.Context(), func(ctx context.Context) (int, error) {
			w.started.Add(1)
			<-ctx.Done()
			return n, nil // It had it already.
		})
	}
	for i := range 5 {
		begin(i)
	}
	require.Eventually(t, func() bool { return w.started.Load() == 2 }, soon, tick)
	w.Stop()
	closed := 0
	w.closed.Range(func(any, any) bool { closed++; return true })
	assert.Equal(t, 2, closed, "what two had come to is closed")
	_, ended, _ := begin(9).Take()
	assert.False(t, ended)
	w.Wait()
	assert.Equal(t, int64(2), w.started.Load(), "the others are not begun, nor anything later")
	w.Stop()
}

// Many workers' worth of asking, taking and dropping: what is loaded is taken or closed,
// each once.
func TestNothingIsLostUnderLoad(t *testing.T) {
	const many = 500
	var loadedSum, closedSum, takenSum atomic.Int64
	loads := loading.New(4, func(n int) { closedSum.Add(int64(n)) }, func() {})
	var workers sync.WaitGroup
	for worker := range 4 {
		workers.Go(func() {
			for i := range many {
				one := loads.Begin(t.Context(), func(context.Context) (int, error) {
					loadedSum.Add(int64(i))
					return i, nil
				})
				if (i+worker)%3 == 0 {
					loads.Drop(one)
					continue
				}
				for {
					if n, ended, _ := one.Take(); ended {
						takenSum.Add(int64(n))
						break
					}
					runtime.Gosched()
				}
			}
		})
	}
	workers.Wait()
	loads.Stop()
	assert.Equal(t, loadedSum.Load(), closedSum.Load()+takenSum.Load())
}
