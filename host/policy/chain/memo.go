package chain

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"
)

// maxMemoRequest bounds the size of a request that is worth remembering, in bytes.
const maxMemoRequest = 64 << 10

// memo remembers valid answers, bounded in number and size, and makes equal
// questions that arrive together one call. It is sound because policies are pure.
//
// The table is indexed by a hash with a per-process seed, and each hit compares the
// link's identity and the whole request: a collision costs a call, never a wrong
// answer. Errors are not remembered.
type memo struct {
	seed  maphash.Seed
	cache *lru.Cache[uint64, *remembered]
	bytes atomic.Int64
	limit int64
	calls singleflight.Group
	// adding is held while an entry is added, for the sake of the size.
	adding sync.Mutex
}

type remembered struct {
	identity [32]byte
	request  []byte
	answer   *answer
}

func newMemo(entries int, limit int64) *memo {
	m := &memo{seed: maphash.MakeSeed(), limit: limit}
	if entries > 0 {
		// The constructor fails for sizes below one only.
		m.cache, _ = lru.NewWithEvict(entries, func(_ uint64, gone *remembered) { m.bytes.Add(-gone.size()) })
	}
	return m
}

func (r *remembered) size() int64 { return int64(len(r.request) + r.answer.bytes) }

func (m *memo) key(l *link, request []byte) uint64 {
	return maphash.Bytes(m.seed, request) ^ binary.NativeEndian.Uint64(l.identity[:])
}

// get returns a remembered answer, or nil. It allocates nothing.
func (m *memo) get(key uint64, l *link, request []byte) *answer {
	if m.cache == nil {
		return nil
	}
	found, ok := m.cache.Get(key)
	if !ok || found.identity != l.identity || !bytes.Equal(found.request, request) {
		return nil
	}
	return found.answer
}

func (m *memo) put(key uint64, l *link, request []byte, a *answer) {
	if m.cache == nil || len(request) > maxMemoRequest {
		return
	}
	m.adding.Lock()
	defer m.adding.Unlock()
	entry := &remembered{identity: l.identity, request: request, answer: a}
	if old, ok := m.cache.Peek(key); ok {
		// Replacing an entry does not count as its eviction.
		m.bytes.Add(-old.size())
	}
	m.bytes.Add(entry.size())
	m.cache.Add(key, entry)
	for m.bytes.Load() > m.limit && m.cache.Len() > 0 {
		m.cache.RemoveOldest()
	}
}

// do returns the answer to a request: remembered, from a call that is under way, or
// from ask. The request is copied when it must outlive the call. Asking goes on when
// the caller's context ends, since others may wait for the same answer; fuel bounds
// it.
func (m *memo) do(ctx context.Context, l *link, request []byte, ask func(context.Context, []byte) (*answer, error)) (*answer, bool, error) {
	key := m.key(l, request)
	if found := m.get(key, l, request); found != nil {
		return found, true, nil
	}
	kept := bytes.Clone(request)
	result := m.calls.DoChan(string(l.identity[:])+string(kept), func() (any, error) {
		// Another call may have ended between looking and asking.
		if found := m.get(key, l, kept); found != nil {
			return found, nil
		}
		a, err := ask(context.WithoutCancel(ctx), kept)
		if err != nil {
			return nil, err
		}
		m.put(key, l, kept, a)
		return a, nil
	})
	select {
	case <-ctx.Done():
		return nil, false, fmt.Errorf("waiting for the answer: %w", ctx.Err())
	case done := <-result:
		if done.Err != nil {
			return nil, false, done.Err
		}
		a, _ := done.Val.(*answer)
		return a, done.Shared, nil
	}
}
