package chain

import (
	"context"
	"errors"
	"fmt"
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

func TestErrorsAreNotRemembered(t *testing.T) {
	m := newMemo(16, 1<<20)
	l := linkWith(1)
	calls := 0
	ask := func(context.Context, []byte) (*answer, error) {
		if calls++; calls == 1 {
			return nil, errors.New("once")
		}
		return &answer{}, nil
	}
	_, _, err := m.do(t.Context(), l, []byte("x"), ask)
	require.EqualError(t, err, "once")
	for _, want := range []bool{false, true} {
		_, remembered, err := m.do(t.Context(), l, []byte("x"), ask)
		require.NoError(t, err)
		assert.Equal(t, want, remembered)
	}
	assert.Equal(t, 2, calls)
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
