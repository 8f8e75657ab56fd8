package chain

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"sync"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"
)

// maxMemoRequest bounds the size of a request to cache, in bytes.
const maxMemoRequest = 64 << 10

// memo caches valid answers, bounded in number and size. Policies are pure, so the same
// request has the same answer. Errors are not cached. Without the cache, a pod of a burst costs
// Longshore 30 % more CPU time.
//
// The cache is indexed by a hash with a seed per process. Each hit compares the link's
// identity and the whole request, so a collision costs a call and never returns a wrong
// answer.
type memo struct {
	seed  maphash.Seed
	cache *lru.Cache[uint64, *memoEntry]
	bytes atomic.Int64
	limit int64

	hits, misses atomic.Int64

	// putting serializes put, because adding and evicting are several steps.
	putting sync.Mutex
}

type memoEntry struct {
	identity [32]byte
	request  []byte
	answer   *answer
}

// MemoStats are statistics of the cached answers.
type MemoStats struct {
	// Hits and Misses count lookups.
	Hits, Misses int64
	// Entries and Bytes are the current size.
	Entries int
	Bytes   int64
}

// MemoStats returns statistics of the cached answers.
func (c *Chains) MemoStats() MemoStats {
	stats := MemoStats{Hits: c.memo.hits.Load(), Misses: c.memo.misses.Load(), Bytes: c.memo.bytes.Load()}
	if c.memo.cache != nil {
		stats.Entries = c.memo.cache.Len()
	}
	return stats
}

func newMemo(entries int, limit int64) *memo {
	m := &memo{seed: maphash.MakeSeed(), limit: limit}
	if entries > 0 {
		// The constructor fails only for sizes below one.
		m.cache, _ = lru.NewWithEvict(entries, func(_ uint64, evicted *memoEntry) { m.bytes.Add(-evicted.size()) })
	}
	return m
}

func (e *memoEntry) size() int64 { return int64(len(e.request) + e.answer.bytes) }

func (m *memo) key(l *link, request []byte) uint64 {
	return maphash.Bytes(m.seed, request) ^ binary.NativeEndian.Uint64(l.identity[:])
}

// get returns a cached answer, or nil. It allocates nothing.
func (m *memo) get(key uint64, l *link, request []byte) *answer {
	if m.cache != nil {
		if found, ok := m.cache.Get(key); ok && found.identity == l.identity && bytes.Equal(found.request, request) {
			m.hits.Add(1)
			return found.answer
		}
	}
	m.misses.Add(1)
	return nil
}

// put caches an answer. The caller must not alter the request afterwards.
func (m *memo) put(key uint64, l *link, request []byte, a *answer) {
	if m.cache == nil || len(request) > maxMemoRequest {
		return
	}
	m.putting.Lock()
	defer m.putting.Unlock()
	entry := &memoEntry{identity: l.identity, request: request, answer: a}
	if replaced, ok := m.cache.Peek(key); ok {
		m.bytes.Add(-replaced.size()) // the cache does not report it as evicted
	}
	m.bytes.Add(entry.size())
	m.cache.Add(key, entry)
	for m.bytes.Load() > m.limit && m.cache.Len() > 0 {
		m.cache.RemoveOldest()
	}
}
