package event

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/host/kit/apitime"
	"github.com/longshore-dev/longshore/host/kit/events"
)

// A provider that invents events must not fill the consumer's etcd, which keeps events for an hour.
const (
	// subjectBurst is how many writes of events about one object are made at once, and
	// subjectInterval how often one more is made.
	subjectBurst    = 25
	subjectInterval = 10 * time.Second
	// providerBurst and providerInterval are the same for all objects together.
	providerBurst    = 1000
	providerInterval = 200 * time.Millisecond
	// subjects is how many objects are counted apart. One that is forgotten begins with a burst.
	subjects = 4096
)

// Limits are what a provider may have written. The definitions of one provider share them. They are
// safe for concurrent use.
type Limits struct {
	mu       sync.Mutex
	provider *rate.Limiter
	subjects *lru.Cache
}

// NewLimits returns limits of which nothing is used.
func NewLimits() *Limits {
	return &Limits{provider: rate.NewLimiter(rate.Every(providerInterval), providerBurst), subjects: lru.New(subjects)}
}

// take reports whether an event about the object with a UID may be written now, and counts it then. Steps leave half of
// what may be written to the other events.
func (l *Limits) take(uid types.UID, isStep bool, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	value, _ := l.subjects.Get(uid)
	subject, isKnown := value.(*rate.Limiter)
	if !isKnown {
		subject = rate.NewLimiter(rate.Every(subjectInterval), subjectBurst)
		l.subjects.Add(uid, subject)
	}
	ofSubject, ofProvider := 1., 1.
	if isStep {
		ofSubject, ofProvider = subjectBurst/2, providerBurst/2
	}
	if subject.TokensAt(now) < ofSubject || l.provider.TokensAt(now) < ofProvider {
		return false
	}
	return subject.AllowN(now, 1) && l.provider.AllowN(now, 1)
}

// The API servers' limits for events of events.k8s.io, in bytes. core/v1 has none.
const (
	maxMessage = 1024
	maxReason  = 128
	maxSource  = 128
	// maxField has room for the name of a container.
	maxField = 256
)

// cut cuts the texts of an event from a provider, and removes dates with which no API server would take it.
func cut(object client.Object) {
	event, isEvent := object.(*corev1.Event)
	if !isEvent {
		return
	}
	for text, limit := range map[*string]int{
		&event.Message: maxMessage, &event.Reason: maxReason, &event.Type: maxReason, &event.Source.Component: maxSource,
		&event.Source.Host: maxSource, &event.ReportingController: maxSource, &event.InvolvedObject.FieldPath: maxField,
	} {
		*text = events.Cut(*text, limit)
	}
	for _, at := range []*metav1.Time{&event.FirstTimestamp, &event.LastTimestamp, &event.CreationTimestamp} {
		*at = apitime.Bound(*at)
	}
	event.EventTime = apitime.BoundMicro(event.EventTime)
	if event.Series != nil {
		event.Series.LastObservedTime = apitime.BoundMicro(event.Series.LastObservedTime)
	}
}
