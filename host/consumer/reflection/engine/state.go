package engine

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/longshore-dev/longshore/host/kit/budget"
)

// keyState is kept for a key between decisions. It does not survive a restart: it saves
// requests and events, and holds the definition's memory.
type keyState struct {
	memory any
	// lastEvent is the hash of the last event, which is not recorded again.
	lastEvent uint64
	// quiet is nil for most objects.
	quiet *quietEvent
	// applied is the hash of the last configuration that was applied.
	applied uint64
	// absent is set when the API server has confirmed that there is no local object.
	absent bool
	// contest counts the writes of that configuration.
	contest Contest
	// writes counts those of the local object; nil before the first one.
	writes *budget.Object
}

// quietEvent is an event that is not recorded again until a time.
type quietEvent struct {
	hash  uint64
	until time.Time
}

// isQuiet reports whether an event with this hash is not recorded now.
func (s *keyState) isQuiet(hash uint64, now time.Time) bool {
	return s.lastEvent == hash || s.quiet != nil && s.quiet.hash == hash && now.Before(s.quiet.until)
}

// states holds the keyState of every key of one resource.
type states struct {
	seed maphash.Seed
	mu   sync.Mutex
	// keys has pointers, because many slots of a map have no value.
	keys map[Key]*keyState
}

func newStates() *states {
	return &states{seed: maphash.MakeSeed(), keys: map[Key]*keyState{}}
}

func (s *states) get(key Key) keyState {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state := s.keys[key]; state != nil {
		return *state
	}
	return keyState{}
}

// update changes the state of a key. A zero state is not stored.
func (s *states) update(key Key, alter func(*keyState)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.keys[key]
	if state == nil {
		state = &keyState{}
		s.keys[key] = state
	}
	alter(state)
	if state.memory == nil && state.lastEvent == 0 && state.quiet == nil && state.applied == 0 && !state.absent && state.writes == nil {
		delete(s.keys, key)
	}
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
