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

// obstacles tells, as events on the local objects, what keeps them from being replicated:
// who made an object looks there, not at the log of the replicator. What is told once is told
// again when it has been otherwise meanwhile.
type obstacles struct {
	events events.EventRecorder
	peer   peer
	// told is what each object was told last; of the queue's one worker.
	told map[key]string

	mu sync.Mutex
	// unread are the errors of the last tries to list or watch the provider's objects.
	unread map[schema.GroupVersionResource]error
}

func newObstacles(recorder events.EventRecorder, p peer) *obstacles {
	return &obstacles{events: recorder, peer: p, told: map[key]string{}, unread: map[schema.GroupVersionResource]error{}}
}

// tell records an obstacle on the local object, or in the log when there is none.
func (o *obstacles) tell(ctx context.Context, item key, local cache.Store, err error) {
	object, found := find(local, o.peer.localNamespace, item.name)
	if found != nil || object == nil {
		log.FromContext(ctx).Error(err, "Replicating failed, retrying", "resource", item.resource.Resource, "name", item.name)
		return
	}
	if text := err.Error(); o.told[item] != text {
		o.told[item] = text
		o.events.Eventf(object, nil, corev1.EventTypeWarning, reasonNotReplicated, actionReplicate,
			"Not replicated to cluster %s, trying again: %v", o.peer.id, err)
	}
}

// clear forgets what an object was told.
func (o *obstacles) clear(item key) { delete(o.told, item) }

// watching is a handler of watch errors that remembers why objects of the provider cannot
// be read.
func (o *obstacles) watching(resource schema.GroupVersionResource) cache.WatchErrorHandlerWithContext {
	return func(ctx context.Context, r *cache.Reflector, err error) {
		o.mu.Lock()
		o.unread[resource] = err
		o.mu.Unlock()
		cache.DefaultWatchErrorHandler(ctx, r, err)
	}
}

// unreadable says why objects of the provider could not be read the last time; it is for
// those that wait for the first list.
func (o *obstacles) unreadable(resource schema.GroupVersionResource) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.unread[resource]
}
