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

// obstacles records events on local objects that cannot be replicated: the owner of an
// object reads its events, not the log of the replicator. An error is recorded again only
// when the object had another error or none in between.
type obstacles struct {
	events events.EventRecorder
	peer   peer
	// reported is the last error recorded on each object; only the queue's one worker uses it.
	reported map[key]string

	mu sync.Mutex
	// unread holds the last error of listing or watching the provider's objects.
	unread map[schema.GroupVersionResource]error
}

func newObstacles(recorder events.EventRecorder, p peer) *obstacles {
	return &obstacles{events: recorder, peer: p, reported: map[key]string{}, unread: map[schema.GroupVersionResource]error{}}
}

// report records an error on the local object, or in the log when there is none.
func (o *obstacles) report(ctx context.Context, item key, local cache.Store, err error) {
	object, found := find(local, o.peer.localNamespace, item.name)
	if found != nil || object == nil {
		log.FromContext(ctx).Error(err, "Replicating failed, retrying", "resource", item.resource.Resource, "name", item.name)
		return
	}
	if text := err.Error(); o.reported[item] != text {
		o.reported[item] = text
		o.events.Eventf(object, nil, corev1.EventTypeWarning, reasonNotReplicated, actionReplicate,
			"Not replicated to cluster %s, trying again: %v", o.peer.id, err)
	}
}

// clear forgets the last error of an object.
func (o *obstacles) clear(item key) { delete(o.reported, item) }

// watching returns a handler of watch errors that keeps the last one of a resource.
func (o *obstacles) watching(resource schema.GroupVersionResource) cache.WatchErrorHandlerWithContext {
	return func(ctx context.Context, r *cache.Reflector, err error) {
		o.mu.Lock()
		o.unread[resource] = err
		o.mu.Unlock()
		cache.DefaultWatchErrorHandler(ctx, r, err)
	}
}

// unreadable returns the last error of listing a resource of the provider.
func (o *obstacles) unreadable(resource schema.GroupVersionResource) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.unread[resource]
}
