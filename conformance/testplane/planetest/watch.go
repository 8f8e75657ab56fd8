package planetest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Watch returns the objects that exist, as added, and every change after them, until the
// test ends; an object is of the kind of the list's items. It outlives the watches of the
// server, which ends them without an error when it restarts, and when it is so busy that a
// client reads too slowly. Of what happened in between it returns the outcome.
func Watch(tb testing.TB, c client.WithWatch, object client.Object, list client.ObjectList, options ...client.ListOption) <-chan watch.Event {
	tb.Helper()
	ctx := tb.Context()
	with := func(raw *metav1.ListOptions) *client.ListOptions {
		o := &client.ListOptions{Raw: raw}
		return o.ApplyOptions(options)
	}
	events := make(chan watch.Event)
	send := func(eventType watch.EventType, object any) {
		into, ok := object.(runtime.Object)
		if !ok {
			return
		}
		select {
		case events <- watch.Event{Type: eventType, Object: into}:
		case <-ctx.Done():
		}
	}
	empty := func() client.ObjectList {
		into, _ := list.DeepCopyObject().(client.ObjectList)
		return into
	}
	informer := cache.NewSharedInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, raw metav1.ListOptions) (runtime.Object, error) {
			into := empty()
			err := c.List(ctx, into, with(&raw))
			return into, err //nolint:wrapcheck // The informer looks into it.
		},
		WatchFuncWithContext: func(ctx context.Context, raw metav1.ListOptions) (watch.Interface, error) {
			return c.Watch(ctx, empty(), with(&raw))
		},
	}, object, 0)
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { send(watch.Added, object) },
		UpdateFunc: func(before, now any) {
			old, _ := before.(client.Object)
			current, _ := now.(client.Object)
			if old.GetUID() == current.GetUID() {
				send(watch.Modified, now)
				return
			}
			send(watch.Deleted, before)
			send(watch.Added, now)
		},
		DeleteFunc: func(object any) {
			if unseen, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = unseen.Obj
			}
			send(watch.Deleted, object)
		},
	})
	require.NoError(tb, err)
	done := make(chan struct{})
	tb.Cleanup(func() { <-done })
	go func() {
		defer close(done)
		informer.RunWithContext(ctx)
	}()
	return events
}

// WatchPods calls observe with each pod that exists, and with each state of a pod after that, until
// the test ends. The last state of a deleted pod is among them. Calls of observe do not overlap.
func WatchPods(tb testing.TB, c client.WithWatch, observe func(*corev1.Pod), options ...client.ListOption) {
	tb.Helper()
	events, ctx, ended := Watch(tb, c, &corev1.Pod{}, &corev1.PodList{}, options...), tb.Context(), make(chan struct{})
	tb.Cleanup(func() { <-ended })
	go func() {
		defer close(ended)
		for {
			select {
			case <-ctx.Done():
				return
			case event := <-events:
				if pod, ok := event.Object.(*corev1.Pod); ok {
					observe(pod)
				}
			}
		}
	}()
}
