package engine

import (
	"hash/maphash"
	"sync"
)

// keyState is what the engine keeps of a key between decisions. Everything in it can be
// lost: it saves requests and events, and carries the definition's memory.
type keyState struct {
	memory any
	// told is the hash of the last event, so that a cause is told once.
	told uint64
	// applied is the hash of the last configuration that was applied.
	applied uint64
	// absent says that the API server confirmed that there is no local object.
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

// update alters the state of a key; a zero state takes no room.
func (s *states) update(key Key, alter func(*keyState)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.keys[key]
	alter(&state)
	if state.memory == nil && state.told == 0 && state.applied == 0 && !state.absent {
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

func (s *states) forgetNamespace(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.keys {
		if key.Namespace == namespace {
			delete(s.keys, key)
		}
	}
}
