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

	hits, misses atomic.Int64

	// calls that are under way, by key.
	flying sync.Mutex
	calls  map[uint64]*call
	// adding is held while an entry is added, for the sake of the size.
	adding sync.Mutex
}

type remembered struct {
	identity [32]byte
	request  []byte
	answer   *answer
}

// call is one call that several equal questions wait for.
type call struct {
	identity [32]byte
	request  []byte
	// done is closed when the call has ended.
	done   chan struct{}
	answer *answer
	err    error
	// abandoned tells that who called gave up; it says nothing to the others.
	abandoned bool
}

// source says where an answer is from.
type source int

const (
	// fromCall: the question made a call.
	fromCall source = iota
	// fromMemo: it was remembered.
	fromMemo
	// fromOther: an equal question made a call at the time.
	fromOther
)

// MemoStats are figures of the remembered answers.
type MemoStats struct {
	// Hits and Misses count questions; one that waited for another's call is a miss.
	Hits, Misses int64
	// Entries and Bytes are what is remembered now.
	Entries int
	Bytes   int64
}

// MemoStats returns figures of the remembered answers.
func (c *Chains) MemoStats() MemoStats {
	stats := MemoStats{Hits: c.memo.hits.Load(), Misses: c.memo.misses.Load(), Bytes: c.memo.bytes.Load()}
	if c.memo.cache != nil {
		stats.Entries = c.memo.cache.Len()
	}
	return stats
}

func newMemo(entries int, limit int64) *memo {
	m := &memo{seed: maphash.MakeSeed(), limit: limit, calls: map[uint64]*call{}}
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
	m.hits.Add(1)
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

// call answers a request that is not remembered: from a call of an equal question that
// is under way, or from ask, which gets a copy that may be kept. Who waits for another's
// call gives up when its own context ends; when the caller gives up, one of those who
// wait calls in its place.
func (m *memo) call(ctx context.Context, key uint64, l *link, request []byte, ask func(request []byte) (*answer, error)) (*answer, source, error) {
	for {
		m.flying.Lock()
		other := m.calls[key]
		if other == nil {
			// Another call may have ended since we looked.
			if found := m.get(key, l, request); found != nil {
				m.flying.Unlock()
				return found, fromMemo, nil
			}
			mine := &call{identity: l.identity, request: bytes.Clone(request), done: make(chan struct{})}
			m.calls[key] = mine
			m.flying.Unlock()
			m.misses.Add(1)
			m.run(ctx, key, l, mine, ask)
			return mine.answer, fromCall, mine.err
		}
		m.flying.Unlock()
		m.misses.Add(1)
		if other.identity != l.identity || !bytes.Equal(other.request, request) {
			// A collision: nothing in common but the hash.
			a, err := ask(bytes.Clone(request))
			return a, fromCall, err
		}
		select {
		case <-ctx.Done():
			return nil, fromOther, fmt.Errorf("waiting for the answer: %w", ctx.Err())
		case <-other.done:
			if !other.abandoned {
				return other.answer, fromOther, other.err
			}
		}
	}
}

// run makes a call and lets those know who wait for it, even if asking panics.
func (m *memo) run(ctx context.Context, key uint64, l *link, mine *call, ask func(request []byte) (*answer, error)) {
	mine.abandoned = true
	defer func() {
		m.flying.Lock()
		delete(m.calls, key)
		m.flying.Unlock()
		close(mine.done)
	}()
	mine.answer, mine.err = ask(mine.request)
	mine.abandoned = mine.err != nil && ctx.Err() != nil
	if mine.err == nil {
		m.put(key, l, mine.request, mine.answer)
	}
}
