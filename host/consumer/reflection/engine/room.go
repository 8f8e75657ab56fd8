package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/host/kit/remotecluster"
	"github.com/longshore-dev/longshore/host/kit/undecodable"
)

const (
	// roomShare is the part of the memory limit that objects of the provider may take. The rest is for those
	// of the consumer, requests under way, policies and garbage.
	roomShare = 4
	// roomWithoutLimit is the room without a memory limit.
	roomWithoutLimit = 1 << 30
	// overheadCost is what the store keeps beside the text of an object, and decodedCost how many times its
	// text a decoded object takes.
	overheadCost, decodedCost = 300, 4
)

// overflowPause is the time until objects are read again that were too many.
const overflowPause = time.Minute

// room is what all stores of a process may keep of the objects of the provider, in bytes: it could send objects
// without end, each list and watch within the limit of a response. A nil room has no limit.
type room struct {
	limit int64
	used  atomic.Int64
}

// newRoom returns the room within a memory limit of the Go runtime.
func newRoom(memory int64) *room {
	if memory == math.MaxInt64 {
		return &room{limit: roomWithoutLimit}
	}
	return &room{limit: memory / roomShare}
}

// memoryLimit returns GOMEMLIMIT, math.MaxInt64 without one.
func memoryLimit() int64 { return debug.SetMemoryLimit(-1) }

// lacks reports whether so many bytes more are too many.
func (r *room) lacks(more int64) bool { return r != nil && more > 0 && r.used.Load()+more > r.limit }

func (r *room) add(more int64) {
	if r != nil {
		r.used.Add(more)
	}
}

// overflowError is the error of objects for which there is no room.
type overflowError struct{ limit int64 }

// Error implements error.
func (e *overflowError) Error() string {
	return fmt.Sprintf("its objects take more than %d MiB, a quarter of the memory limit", e.limit>>20)
}

// isTooMuch reports whether another cluster sent more than is read or kept.
func isTooMuch(err error) bool {
	var overflow *overflowError
	var response *remotecluster.TooLargeError
	return errors.As(err, &overflow) || errors.As(err, &response)
}

// IsUnreadable reports whether another cluster sent what cannot be decoded, or what would take long.
func IsUnreadable(err error) bool {
	var pages *remotecluster.PagesError
	return errors.As(err, new(*undecodable.AmountError)) || !isTooMuch(err) && !errors.As(err, &pages) && undecodable.IsDecoding(err)
}

// pauseAfter waits after an error of what would be read again at once.
func pauseAfter(ctx context.Context, err error) {
	if !isTooMuch(err) && !errors.As(err, new(*undecodable.AmountError)) {
		return
	}
	select {
	case <-time.After(overflowPause):
	case <-ctx.Done():
	}
}

// cost returns about how many bytes of memory an object in a store takes; 0 for nil.
func (s *stored) cost() int64 {
	switch object := s; {
	case object == nil:
		return 0
	case object.object == nil:
		return overheadCost + int64(len(object.encoded))
	default:
		return overheadCost + decodedCost*sizeOf(object.object)
	}
}

func sizeOf(object client.Object) int64 {
	if sized, ok := object.(interface{ Size() int }); ok {
		return int64(sized.Size())
	}
	content, err := json.Marshal(object)
	if err != nil {
		return remotecluster.MaxResponse // It cannot be kept.
	}
	return int64(len(content))
}

// set stores, under the lock, an object.
func (s *store) set(name types.NamespacedName, kept *stored) {
	more := kept.cost() - s.objects.get(name).cost()
	s.objects.set(name, kept)
	s.size += more
	s.room.add(more)
}

// remove removes, under the lock, an object.
func (s *store) remove(name types.NamespacedName) {
	less := s.objects.get(name).cost()
	s.objects.remove(name)
	s.size -= less
	s.room.add(-less)
}

// admit ends, under the lock, the watch if there is no room for so many bytes more. What the store has stays: that
// it is gone would be another statement. What else the watch brings is left out, until the next one begins.
func (s *store) admit(more int64) error {
	if !s.room.lacks(more) {
		return nil
	}
	s.overflowed = &overflowError{limit: s.room.limit}
	if s.stop != nil {
		s.stop()
	}
	return s.overflowed
}

// admitAll is admit for the objects of a list, which replace all others.
func (s *store) admitAll(items map[types.NamespacedName]item) error {
	if s.room == nil {
		return nil
	}
	more := -s.size
	for _, listed := range items {
		more += listed.kept.cost()
	}
	return s.admit(more)
}

// begin is called before a watch, which stop ends. overflow returns why it was ended, or nil.
func (s *store) begin(stop context.CancelFunc) (overflow func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop, s.overflowed = stop, nil
	return func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.overflowed
	}
}

// leaveRoom is called when the store is not used any more.
func (s *store) leaveRoom() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.room.add(-s.size)
	s.room, s.size = nil, 0
}

// Resync implements cache.ReflectorStore. It does nothing.
func (s *store) Resync() error { return nil }
