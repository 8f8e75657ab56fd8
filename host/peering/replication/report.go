package replication

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// errorReporter records events on local objects that cannot be replicated. An error is recorded
// again only after another error or a success.
type errorReporter struct {
	events events.EventRecorder
	peer   peer
	// reported is the last error of each object. It is used by the worker only.
	reported map[key]string

	mu sync.Mutex
	// watchErrors are the last errors of listing or watching the provider's objects.
	watchErrors map[schema.GroupVersionResource]error
}

func newErrorReporter(recorder events.EventRecorder, p peer) *errorReporter {
	return &errorReporter{events: recorder, peer: p, reported: map[key]string{}, watchErrors: map[schema.GroupVersionResource]error{}}
}

// report records an event on the local object, or logs the error if the object does not exist.
func (o *errorReporter) report(ctx context.Context, item key, local cache.Store, err error) {
	object, findErr := find(local, o.peer.localNamespace, item.name)
	if findErr != nil || object == nil {
		log.FromContext(ctx).Error(err, "Failed to replicate, retrying", "resource", item.resource.Resource, "name", item.name)
		return
	}
	if text := err.Error(); o.reported[item] != text {
		o.reported[item] = text
		o.events.Eventf(object, nil, corev1.EventTypeWarning, reasonNotReplicated, actionReplicate,
			"Failed to replicate to cluster %s, retrying: %v", o.peer.id, err)
	}
}

// clear removes the last error of an object.
func (o *errorReporter) clear(item key) { delete(o.reported, item) }

// handleWatchErrors returns a handler of watch errors that keeps the last error of a resource.
func (o *errorReporter) handleWatchErrors(resource schema.GroupVersionResource) cache.WatchErrorHandlerWithContext {
	return func(ctx context.Context, r *cache.Reflector, err error) {
		o.mu.Lock()
		o.watchErrors[resource] = err
		o.mu.Unlock()
		cache.DefaultWatchErrorHandler(ctx, r, err)
	}
}

// watchError returns the last error of listing or watching a resource of the provider.
func (o *errorReporter) watchError(resource schema.GroupVersionResource) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.watchErrors[resource]
}
