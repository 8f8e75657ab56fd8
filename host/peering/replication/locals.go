package replication

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
)

// notACopy selects the objects that are not copies of another cluster's. An own object without the
// labels of replication must be known: it is not deleted.
const notACopy = liqocorev1beta1.ReplicatedLabel + "!=true"

// locals has the local objects of all peers: one watch for each resource, however many peers there
// are.
type locals struct {
	objects map[schema.GroupVersionResource]*objects
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu sync.Mutex
	// reflectors get the names of changed objects in their namespaces.
	reflectors map[*reflector]bool
}

// startLocals observes the local objects until they are stopped or the context ends.
func startLocals(ctx context.Context, client dynamic.Interface, resources []schema.GroupVersionResource, resync time.Duration) *locals {
	l := &locals{objects: map[schema.GroupVersionResource]*objects{}, reflectors: map[*reflector]bool{}}
	ctx, l.cancel = context.WithCancel(ctx)
	for _, resource := range resources {
		observed := newObjects(source{client: client, resource: resource, selector: notACopy}, func(name cache.ObjectName) { l.enqueue(resource, name) })
		l.objects[resource] = observed
		l.running.Go(func() { observed.run(ctx, resync, overflowPause) })
	}
	return l
}

// stop ends the watches.
func (l *locals) stop() {
	l.cancel()
	l.running.Wait()
}

// subscribe has a reflector replicate the objects in its namespace, those that exist first.
func (l *locals) subscribe(r *reflector) {
	l.mu.Lock()
	l.reflectors[r] = true
	l.mu.Unlock()
	r.enqueueAll()
}

// replicateAgain has the reflectors of a peer look again at all objects in their namespaces, and at all
// copies, whose objects may be gone.
func (l *locals) replicateAgain(peer string) {
	var concerned []*reflector
	l.mu.Lock()
	for r := range l.reflectors {
		if r.peer.id == peer {
			concerned = append(concerned, r)
		}
	}
	l.mu.Unlock()
	for _, r := range concerned {
		r.enqueueAll()
		r.enqueueCopies()
	}
}

func (l *locals) unsubscribe(r *reflector) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.reflectors, r)
}

func (l *locals) enqueue(resource schema.GroupVersionResource, name cache.ObjectName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for r := range l.reflectors {
		if r.peer.localNamespace == name.Namespace {
			r.queue.Add(key{resource: resource, name: name.Name})
		}
	}
}
