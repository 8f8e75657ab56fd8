package chain

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

func linkWith(identity byte) *link { return &link{identity: [32]byte{identity}} }

func TestAHashCollisionIsAMiss(t *testing.T) {
	m := newMemo(16, 1<<20)
	a, b := linkWith(1), linkWith(2)
	request := []byte("request")
	right := &answer{bytes: 1}
	const key = 7 // as if both requests had the same hash
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
	assert.Equal(t, int64(1000), m.bytes.Load(), "replaced entries are subtracted")

	large := make([]byte, maxMemoRequest+1)
	m.put(1, l, large, &answer{})
	assert.Nil(t, m.get(1, l, large), "large requests are not cached")

	none := newMemo(-1, 0)
	none.put(1, l, []byte("x"), &answer{})
	assert.Nil(t, none.get(1, l, []byte("x")))
}

func TestAHitAllocatesNothing(t *testing.T) {
	m := newMemo(16, 1<<20)
	l := linkWith(1)
	request := make([]byte, 900)
	m.put(m.key(l, request), l, request, &answer{})
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		if m.get(m.key(l, request), l, request) == nil {
			t.Fatal("not cached")
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
			b.Fatal("not cached")
		}
	}
}
