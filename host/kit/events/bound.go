package events

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
)

// What an event says often depends on what another cluster writes: with other names in each update of an object, it
// would fill etcd with events about it.
const (
	// burst is how many events with different notes are recorded at once for one reason and object, and interval how
	// often one more is.
	burst    = 10
	interval = 5 * time.Minute
	// subjects is how many pairs of a reason and an object are counted apart. One that is forgotten begins with a
	// burst.
	subjects = 4096
)

// bounds are how often each object has an event of each reason. They are safe for concurrent use.
type bounds struct {
	mu    sync.Mutex
	known *lru.Cache
}

func newBounds() *bounds { return &bounds{known: lru.New(subjects)} }

// subject is what is counted. It has no UID: an object that is deleted and created again does not begin anew.
type subject struct{ regarding, related, reason string }

// recorded is what was recorded for a subject.
type recorded struct {
	limiter *rate.Limiter
	uid     types.UID
	note    string
}

// take reports whether an event is recorded, and counts it then. One that repeats the last one costs nothing:
// its repetitions are counted in the event that exists.
func (b *bounds) take(regarding, related runtime.Object, reason, note string, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	name, uid := nameOf(regarding)
	other, _ := nameOf(related)
	key := subject{name, other, reason}
	value, _ := b.known.Get(key)
	last, isKnown := value.(*recorded)
	if !isKnown {
		last = &recorded{limiter: rate.NewLimiter(rate.Every(interval), burst)}
		b.known.Add(key, last)
	}
	if isKnown && last.uid == uid && last.note == note {
		return true
	}
	if !last.limiter.AllowN(now, 1) {
		return false
	}
	last.uid, last.note = uid, note
	return true
}

// nameOf returns what identifies an object, which may be nil, and its UID.
func nameOf(object runtime.Object) (string, types.UID) {
	if object == nil {
		return "", ""
	}
	if reference, ok := object.(*corev1.ObjectReference); ok {
		return fmt.Sprintf("reference %s %s/%s", reference.Kind, reference.Namespace, reference.Name), reference.UID
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return fmt.Sprintf("%T", object), "" // No recorder takes what is no object.
	}
	return fmt.Sprintf("%T %s %s/%s", object, object.GetObjectKind().GroupVersionKind().Kind, accessor.GetNamespace(), accessor.GetName()), accessor.GetUID()
}
