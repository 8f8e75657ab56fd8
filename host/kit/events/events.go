// Package events records events such that every cause is told in its own words.
//
// events.k8s.io joins what is equal in type, reason, action and objects into one event,
// whatever it says, and that keeps saying the first thing. So here the text tells actions
// apart: what says the same is counted up, what says something else is another event.
package events

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	managed "sigs.k8s.io/controller-runtime/pkg/recorder"
)

const (
	// maxNote is the API server's bound of an event's text, in bytes.
	maxNote = 1024
	// maxAction is its bound of an event's action, in bytes.
	maxAction = 128
	// more ends a text that was cut.
	more = "…"
)

// Source gives out recorders; a controller-runtime Manager is one.
type Source interface {
	GetEventRecorder(component string) managed.EventRecorder
}

// New returns the recorder of a component. Like those of client-go, it may be used by
// several goroutines, does not block and reports no failure.
func New(source Source, component string) events.EventRecorder {
	return recorder{source.GetEventRecorder(component)}
}

type recorder struct{ events.EventRecorder }

// Eventf implements events.EventRecorder: regarding is the object on which the event is
// shown, related another that has to do with it, or nil. A text that is too long for
// the API server is cut, where it would refuse the event.
func (r recorder) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	text := fmt.Sprintf(note, args...)
	sum := sha256.Sum256([]byte(text))
	mark := "-" + hex.EncodeToString(sum[:4])
	action = strings.ToValidUTF8(action[:min(len(action), maxAction-len(mark))], "") + mark
	r.EventRecorder.Eventf(unversioned(regarding), unversioned(related), eventType, reason, action, "%s", Cut(text, maxNote))
}

// unversioned returns the object without its resourceVersion, which an event's reference
// would carry: one about the next version of an object would not be counted up.
func unversioned(object runtime.Object) runtime.Object {
	if object == nil {
		return nil
	}
	object = object.DeepCopyObject()
	if reference, ok := object.(*corev1.ObjectReference); ok {
		reference.ResourceVersion = ""
	} else if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetResourceVersion("")
	}
	return object
}

// Cut shortens a text to at most limit bytes, at the border of a character; an ellipsis,
// which counts among them, tells that something is missing.
func Cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:max(limit-len(more), 0)], "") + more
}
