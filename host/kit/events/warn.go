package events

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/host/kit/plaintext"
)

// Warning is a warning on an object, written by [Warn].
type Warning struct {
	Regarding                    corev1.ObjectReference
	Reason, Message              string
	Component, ReportingInstance string
	// Time of the event.
	Time time.Time
}

// Warn writes a warning before it returns, where a recorder of [New] writes it later: it is
// for a process that is about to end. The event's name depends on the object and the
// message, so that a process which restarts again and again counts up one event.
func Warn(ctx context.Context, c client.Client, w Warning) error {
	sum := sha256.Sum256([]byte(w.Message))
	now := metav1.NewTime(w.Time)
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: w.Regarding.Namespace, Name: w.Regarding.Name + "." + hex.EncodeToString(sum[:8])},
		InvolvedObject: w.Regarding, Type: corev1.EventTypeWarning, Reason: w.Reason, Message: Cut(plaintext.Line(w.Message), maxNote),
		Source: corev1.EventSource{Component: w.Component}, ReportingController: w.Component, ReportingInstance: w.ReportingInstance,
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	err := c.Create(ctx, event)
	if apierrors.IsAlreadyExists(err) {
		recorded := &corev1.Event{}
		if err = c.Get(ctx, client.ObjectKeyFromObject(event), recorded); err == nil {
			recorded.Count, recorded.LastTimestamp = recorded.Count+1, now
			err = c.Update(ctx, recorded)
		}
	}
	if err != nil {
		return fmt.Errorf("recording event %q on %s %s/%s: %w", w.Reason, w.Regarding.Kind, w.Regarding.Namespace, w.Regarding.Name, err)
	}
	return nil
}
