package chain

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func linkWith(identity byte) *link { return &link{identity: [32]byte{identity}} }

func TestACollisionIsACallNotAWrongAnswer(t *testing.T) {
	m := newMemo(16, 1<<20)
	a, b := linkWith(1), linkWith(2)
	request := []byte("request")
	right := &answer{bytes: 1}
	const key = 7 // as if both hashed to the same
	m.put(key, a, request, right)
	assert.Same(t, right, m.get(key, a, []byte("request")))
	assert.Nil(t, m.get(key, a, []byte("Request")), "another request")
	assert.Nil(t, m.get(key, b, request), "another policy")

	other := &answer{bytes: 2}
	m.put(key, b, request, other)
	assert.Same(t, other, m.get(key, b, request))
	assert.Nil(t, m.get(key, a, request))
}

func TestTheMemoIsBounded(t *testing.T) {
	m := newMemo(1000, 1000)
	l := linkWith(1)
	fill := func(n int) {
		for i := range n {
			request := fmt.Appendf(nil, "%090d", i)
			m.put(m.key(l, request), l, request, &answer{bytes: 10})
		}
	}
	fill(50)
	assert.Equal(t, 10, m.cache.Len())
	assert.Equal(t, int64(1000), m.bytes.Load())
	fill(50)
	assert.Equal(t, int64(1000), m.bytes.Load(), "replacing entries keeps the books")

	large := make([]byte, maxMemoRequest+1)
	m.put(1, l, large, &answer{})
	assert.Nil(t, m.get(1, l, large), "a huge request is not worth it")

	none := newMemo(-1, 0)
	none.put(1, l, []byte("x"), &answer{})
	assert.Nil(t, none.get(1, l, []byte("x")))
}

// question asks the memo as a chain does.
func question(ctx context.Context, m *memo, l *link, request string, ask func([]byte) (*answer, error)) (*answer, source, error) {
	key := m.key(l, []byte(request))
	if found := m.get(key, l, []byte(request)); found != nil {
		return found, fromMemo, nil
	}
	return m.call(ctx, key, l, []byte(request), ask)
}

func TestErrorsAreNotRemembered(t *testing.T) {
	m := newMemo(16, 1<<20)
	l := linkWith(1)
	calls := 0
	ask := func([]byte) (*answer, error) {
		if calls++; calls == 1 {
			return nil, errors.New("once")
		}
		return &answer{}, nil
	}
	_, _, err := question(t.Context(), m, l, "x", ask)
	require.EqualError(t, err, "once")
	assert.Zero(t, m.cache.Len())
	for _, want := range []source{fromCall, fromMemo} {
		_, from, err := question(t.Context(), m, l, "x", ask)
		require.NoError(t, err)
		assert.Equal(t, want, from)
	}
	assert.Equal(t, 2, calls)
	assert.Equal(t, int64(1), m.hits.Load())
	assert.Equal(t, int64(2), m.misses.Load())
}

// meet starts a call that blocks until open is closed, and returns when it is under way.
func meet(ctx context.Context, m *memo, key uint64, l *link, request string, open <-chan struct{}, result func() (*answer, error)) <-chan error {
	entered, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		_, _, err := m.call(ctx, key, l, []byte(request), func([]byte) (*answer, error) {
			close(entered)
			<-open
			return result()
		})
		ended <- err
	}()
	<-entered
	return ended
}

func TestCallsOfQuestionsThatCollideAreNotShared(t *testing.T) {
	m := newMemo(16, 1<<20)
	open := make(chan struct{})
	const key = 7 // as if all hashed to the same
	mine := &answer{bytes: 1}
	ended := meet(t.Context(), m, key, linkWith(1), "one", open, func() (*answer, error) { return mine, nil })
	for name, other := range map[string]struct {
		link    *link
		request string
	}{
		"another request": {link: linkWith(1), request: "two"},
		"another policy":  {link: linkWith(2), request: "one"},
	} {
		own := &answer{bytes: 2}
		got, from, err := m.call(t.Context(), key, other.link, []byte(other.request), func(request []byte) (*answer, error) {
			assert.Equal(t, other.request, string(request))
			return own, nil
		})
		require.NoError(t, err)
		assert.Same(t, own, got, name)
		assert.Equal(t, fromCall, from)
	}
	close(open)
	require.NoError(t, <-ended)
}

func TestWhoWaitsForACallThatWasGivenUpCallsItself(t *testing.T) {
	m := newMemo(16, 1<<20)
	l := linkWith(1)
	key := m.key(l, []byte("x"))
	leader, cancel := context.WithCancel(t.Context())
	open := make(chan struct{})
	left := meet(leader, m, key, l, "x", open, func() (*answer, error) { return nil, leader.Err() })

	right := &answer{bytes: 1}
	var calls atomic.Int64
	const others = 20
	type got struct {
		answer *answer
		err    error
	}
	answered := make(chan got, others)
	for range others {
		go func() {
			a, _, err := question(t.Context(), m, l, "x", func([]byte) (*answer, error) {
				calls.Add(1)
				return right, nil
			})
			answered <- got{a, err}
		}()
	}
	impatient, giveUp := context.WithCancel(t.Context())
	giveUp()
	_, from, err := question(impatient, m, l, "x", nil)
	require.ErrorIs(t, err, context.Canceled, "who gives up does not wait for another's call")
	assert.Equal(t, fromOther, from)

	cancel()
	close(open)
	require.ErrorIs(t, <-left, context.Canceled)
	for range others {
		got := <-answered
		require.NoError(t, got.err, "the cancellation was not theirs")
		assert.Same(t, right, got.answer)
	}
	assert.Equal(t, int64(1), calls.Load(), "one of them called for all")
	assert.Empty(t, m.calls)
}

func TestAnErrorGoesToAllWhoWaitAndIsForgotten(t *testing.T) {
	m := newMemo(16, 1<<20)
	l := linkWith(1)
	key := m.key(l, []byte("x"))
	open := make(chan struct{})
	failure := errors.New("no answer")
	ended := meet(t.Context(), m, key, l, "x", open, func() (*answer, error) { return nil, failure })
	waiting := make(chan error)
	go func() {
		_, _, err := question(t.Context(), m, l, "x", func([]byte) (*answer, error) { return nil, failure })
		waiting <- err
	}()
	close(open)
	require.ErrorIs(t, <-ended, failure)
	require.ErrorIs(t, <-waiting, failure)
	assert.Zero(t, m.cache.Len())
	assert.Empty(t, m.calls)
}

func TestACallThatPanicsHoldsNobodyUp(t *testing.T) {
	m := newMemo(16, 1<<20)
	l := linkWith(1)
	assert.Panics(t, func() {
		_, _, _ = question(t.Context(), m, l, "x", func([]byte) (*answer, error) { panic("ours") })
	})
	a, _, err := question(t.Context(), m, l, "x", func([]byte) (*answer, error) { return &answer{}, nil })
	require.NoError(t, err)
	assert.NotNil(t, a)
}

func TestAHitAllocatesNothing(t *testing.T) {
	m := newMemo(16, 1<<20)
	l := linkWith(1)
	request := make([]byte, 900)
	m.put(m.key(l, request), l, request, &answer{})
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		if m.get(m.key(l, request), l, request) == nil {
			t.Fatal("not remembered")
		}
	}))
}

func BenchmarkMemoHit(b *testing.B) {
	m := newMemo(16, 1<<20)
	l := linkWith(1)
	request := make([]byte, 900)
	m.put(m.key(l, request), l, request, &answer{})
	b.ReportAllocs()
	for b.Loop() {
		if m.get(m.key(l, request), l, request) == nil {
			b.Fatal("not remembered")
		}
	}
}
