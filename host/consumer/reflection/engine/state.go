package engine

import (
	"hash/maphash"
	"sync"
	"time"
)

// keyState is kept for a key between decisions. It does not survive a restart: it saves
// requests and events, and holds the definition's memory.
type keyState struct {
	memory any
	// lastEvent is the hash of the last event, which is not recorded again.
	lastEvent uint64
	// quietEvent is the hash of an event that is not recorded again until quietUntil.
	quietEvent uint64
	quietUntil time.Time
	// applied is the hash of the last configuration that was applied.
	applied uint64
	// absent is set when the API server has confirmed that there is no local object.
	absent bool
	// contest counts the writes of that configuration.
	contest Contest
}

// states holds the keyState of every key of one resource.
type states struct {
	seed maphash.Seed
	mu   sync.Mutex
	keys map[Key]keyState
}

func newStates() *states {
	return &states{seed: maphash.MakeSeed(), keys: map[Key]keyState{}}
}

func (s *states) get(key Key) keyState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys[key]
}

// update changes the state of a key. A zero state is not stored.
func (s *states) update(key Key, alter func(*keyState)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.keys[key]
	alter(&state)
	if state.memory == nil && state.lastEvent == 0 && state.quietEvent == 0 && state.applied == 0 && !state.absent {
		delete(s.keys, key)
		return
	}
	s.keys[key] = state
}

func (s *states) forget(key Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.keys, key)
}

// hash is never zero, so that zero can mean "none".
func (s *states) hash(parts ...string) uint64 {
	var h maphash.Hash
	h.SetSeed(s.seed)
	for _, part := range parts {
		_, _ = h.WriteString(part)
		_ = h.WriteByte(0)
	}
	return h.Sum64() | 1
}

func (s *states) dropNamespace(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.keys {
		if key.Namespace == namespace {
			delete(s.keys, key)
		}
	}
}
