// Package events records events so that each note is visible.
//
// The recorder of events.k8s.io aggregates events with equal type, reason, action and object
// references, and keeps the first note. A second cause under the same reason would stay
// invisible until the series ends. This package sets the resourceVersion of the reference to
// the regarding object, which no client of events reads, to a hash of the note: events with
// equal notes are aggregated, events with different notes are not. How many of the latter an object has is bounded.
package events

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	managed "sigs.k8s.io/controller-runtime/pkg/recorder"

	"github.com/longshore-dev/longshore/host/kit/plaintext"
)

const (
	// maxNote is the API server's limit for the note of an event, in bytes.
	maxNote = 1024
	// ellipsis ends a truncated text.
	ellipsis = "…"
)

// Source creates recorders. A controller-runtime Manager is a Source.
type Source interface {
	GetEventRecorder(component string) managed.EventRecorder
}

// New returns the recorder of a component, which bounds events by the clock. It may be used concurrently, does not block and
// reports no failure.
func New(source Source, component string, now func() time.Time) events.EventRecorder {
	return recorder{source.GetEventRecorder(component), newBounds(), now}
}

type recorder struct {
	events.EventRecorder
	bounds *bounds
	now    func() time.Time
}

// Eventf implements events.EventRecorder. Related may be nil. It truncates a note that the API
// server would reject, makes it plain, since another cluster may have written a part of it, and leaves out one too many of a reason and an object.
func (r recorder) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	text := plaintext.Line(fmt.Sprintf(note, args...))
	if !r.bounds.take(regarding, related, reason, text, r.now()) {
		return
	}
	sum := sha256.Sum256([]byte(text))
	r.EventRecorder.Eventf(withVersion(regarding, hex.EncodeToString(sum[:4])), withVersion(related, ""), eventType, reason, action, "%s", Cut(text, maxNote))
}

// withVersion returns a copy of an object with another resourceVersion.
func withVersion(object runtime.Object, version string) runtime.Object {
	if object == nil {
		return nil
	}
	object = object.DeepCopyObject()
	if reference, ok := object.(*corev1.ObjectReference); ok {
		reference.ResourceVersion = version
	} else if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetResourceVersion(version)
	}
	return object
}

// Cut truncates a text to at most limit bytes, including an ellipsis, without splitting a
// character.
func Cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:max(limit-len(ellipsis), 0)], "") + ellipsis
}
