package replication

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/log"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/budget"
	"github.com/longshore-dev/longshore/host/kit/retry"
)

// key is one replicated object. Local object and copy have the same name.
type key struct {
	resource schema.GroupVersionResource
	name     string
}

// peer is a provider with its tenant namespaces on both sides.
type peer struct {
	id              string
	localNamespace  string
	remoteNamespace string
}

// reflector replicates the objects of one peer.
type reflector struct {
	own       string
	peer      peer
	resources []schema.GroupVersionResource
	local     dynamic.Interface
	remote    dynamic.Interface
	resync    time.Duration
	// isUnreachable reports whether the peer is permanently unreachable.
	isUnreachable func(ctx context.Context) (bool, error)
	// errors records errors of replication.
	errors *errorReporter
	now    func() time.Time

	queue workqueue.TypedRateLimitingInterface[key]
	// locals are those of all peers, remotes the copies of this one.
	locals  *locals
	remotes map[schema.GroupVersionResource]*objects
	// budget is that of the statuses of this peer, and writes counts those of each object. The worker uses them.
	budget *budget.Budget
	writes map[key]*budget.Object
}

const (
	// waitPoll is the requeue interval of an object that waits for its provider.
	waitPoll = 5 * time.Second
	// maxStatus bounds the status of an object that has a VirtualNode made of it, in bytes. One of a
	// ResourceSlice has 3 KiB.
	maxStatus = 64 << 10
)

// run replicates objects until the context ends.
func (r *reflector) run(ctx context.Context) {
	copies := labels.SelectorFromSet(labels.Set{liqocorev1beta1.OriginIDLabel: r.own, liqocorev1beta1.ReplicatedLabel: "true"}).String()
	r.budget, r.writes = budget.New(), map[key]*budget.Object{}
	r.queue, r.remotes = workqueue.NewTypedRateLimitingQueue(retry.Limiter[key]()), map[schema.GroupVersionResource]*objects{}
	for _, resource := range r.resources {
		from := source{client: r.remote, resource: resource, namespace: r.peer.remoteNamespace, selector: copies, limit: MaxCopies}
		r.remotes[resource] = newObjects(from, func(name cache.ObjectName) { r.queue.Add(key{resource: resource, name: name.Name}) })
	}
	var running sync.WaitGroup
	defer running.Wait()
	defer r.queue.ShutDown()
	for _, remote := range r.remotes {
		running.Go(func() { remote.run(ctx, r.resync, overflowPause) })
	}
	if !awaitSync(ctx, r.locals.objects) {
		return
	}
	r.locals.subscribe(r)
	defer r.locals.unsubscribe(r)
	// Do not wait for the provider: objects of an unreachable peer are released without it.
	running.Go(func() { r.work(ctx) })
	if awaitSync(ctx, r.remotes) {
		r.enqueueAll()
	}
	<-ctx.Done()
}

// awaitSync waits for the first lists. It returns false if the context ends first.
func awaitSync(ctx context.Context, all map[schema.GroupVersionResource]*objects) bool {
	for _, observed := range all {
		select {
		case <-observed.synced:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// enqueueAll enqueues the local objects, which wait for the first list of the provider.
func (r *reflector) enqueueAll() {
	for resource, observed := range r.locals.objects {
		for _, name := range observed.names(r.peer.localNamespace) {
			r.queue.Add(key{resource: resource, name: name})
		}
	}
}

// enqueueCopies enqueues the copies that the provider has.
func (r *reflector) enqueueCopies() {
	for resource, observed := range r.remotes {
		for _, name := range observed.names(r.peer.remoteNamespace) {
			r.queue.Add(key{resource: resource, name: name})
		}
	}
}

func (r *reflector) work(ctx context.Context) {
	for {
		item, shutdown := r.queue.Get()
		if shutdown {
			return
		}
		err := r.replicate(ctx, item)
		switch {
		case err == nil || ctx.Err() != nil:
			r.queue.Forget(item)
		case apierrors.IsConflict(err):
			log.FromContext(ctx).V(1).Info("Cache is stale, requeueing", "resource", item.resource.Resource, "name", item.name)
			r.queue.AddRateLimited(item)
		default:
			r.errors.report(ctx, item, r.findLocal(item), err)
			r.queue.AddRateLimited(item)
		}
		r.queue.Done(item)
	}
}

// findLocal returns the local object, or nil.
func (r *reflector) findLocal(item key) *unstructured.Unstructured {
	return r.locals.objects[item.resource].find(r.peer.localNamespace, item.name)
}

// replicate replicates one object.
func (r *reflector) replicate(ctx context.Context, item key) error {
	local := r.findLocal(item)
	if local == nil {
		delete(r.writes, item)
	}
	if err := checkLabels(local, r.peer.id); errors.Is(err, errNotReplicated) {
		return nil
	} else if err != nil {
		return err
	}
	unreachable, err := r.isUnreachable(ctx)
	if err != nil {
		return fmt.Errorf("reading whether cluster %q is permanently unreachable: %w", r.peer.id, err)
	}
	remotes := r.remotes[item.resource]
	if !remotes.hasSynced() && !unreachable {
		if err := remotes.lastError(); err != nil {
			r.errors.report(ctx, item, local, err)
		}
		r.queue.AddAfter(item, waitPoll)
		return nil
	}
	remote := remotes.find(r.peer.remoteNamespace, item.name)
	logUnknownOrigin(ctx, item, local, remote)
	steps := plan(local, remote, r.peer.localNamespace, unreachable)
	for _, next := range steps {
		if err := r.act(ctx, next, item, local, remote); err != nil {
			return fmt.Errorf("%s of %s %q: %w", next, item.resource.Resource, item.name, err)
		}
	}
	r.errors.clear(item)
	if isWithdrawing(local) && !slices.Contains(steps, removeFinalizer) {
		r.queue.AddAfter(item, waitPoll)
	}
	return nil
}

// logUnknownOrigin logs that a copy without a local object is kept because its origin is unknown.
func logUnknownOrigin(ctx context.Context, item key, local, remote *unstructured.Unstructured) {
	if local == nil && remote != nil && originOf(remote) == "" {
		log.FromContext(ctx).Info("Copy without an origin has no local object and is kept; delete it in the provider if it is not needed",
			"resource", item.resource.Resource, "name", item.name)
	}
}

// isWithdrawing reports whether a local object waits for the deletion of its copy.
func isWithdrawing(local *unstructured.Unstructured) bool {
	return local != nil && local.GetDeletionTimestamp() != nil && isFinalized(local)
}

// errNotReplicated is the error of an object without labels and finalizer of replication.
var errNotReplicated = errors.New("not replicated")

// checkLabels returns an error if a local object does not have the labels of replication to the
// peer. An object with the finalizer that is being deleted does not need them.
func checkLabels(local *unstructured.Unstructured, peer string) error {
	switch {
	case local == nil || isReplicatedTo(local, peer):
		return nil
	case !isFinalized(local):
		return errNotReplicated
	case local.GetDeletionTimestamp() != nil:
		return nil
	default:
		return fmt.Errorf("the object has no label %s=true or %s=%s any more, and cluster %q keeps its copy: restore the labels, or delete the object to delete the copy",
			liqocorev1beta1.ReplicationLabel, liqocorev1beta1.RemoteIDLabel, peer, peer)
	}
}

// act executes one step.
func (r *reflector) act(ctx context.Context, next step, item key, local, remote *unstructured.Unstructured) error {
	locals := r.local.Resource(item.resource).Namespace(r.peer.localNamespace)
	remotes := r.remote.Resource(item.resource).Namespace(r.peer.remoteNamespace)
	var err error
	switch next {
	case addFinalizer:
		err = patchFinalizers(ctx, locals, local, append(slices.Clone(local.GetFinalizers()), liqocorev1beta1.ReplicatorFinalizer))
	case removeFinalizer:
		kept := slices.DeleteFunc(slices.Clone(local.GetFinalizers()), func(f string) bool { return f == liqocorev1beta1.ReplicatorFinalizer })
		err = ignoreNotFound(patchFinalizers(ctx, locals, local, kept))
	case checkOrigin:
		err = r.checkOrigin(ctx, item, originOf(remote))
	case createRemote:
		_, err = remotes.Create(ctx, forgeCopy(local, r.own, r.peer.remoteNamespace), metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			err = r.checkExisting(ctx, remotes, item.name)
		}
	case updateRemote:
		updated := remote.DeepCopy()
		updated.Object["spec"] = local.Object["spec"]
		setOrigin(updated, r.peer.localNamespace)
		_, err = remotes.Update(ctx, updated, metav1.UpdateOptions{})
	case deleteRemote:
		if local == nil {
			if err := r.confirmGone(ctx, item); err != nil {
				return err
			}
		}
		uid := remote.GetUID()
		err = ignoreNotFound(remotes.Delete(ctx, item.name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}))
	case copyStatus:
		err = r.copyStatus(ctx, locals, item, local, remote)
	default:
		err = errors.New("unknown step")
	}
	return err
}

// copyStatus copies the status of a copy, which its cluster can write large and often.
func (r *reflector) copyStatus(ctx context.Context, locals dynamic.ResourceInterface, item key, local, remote *unstructured.Unstructured) error {
	plain, _ := plainStatus(remote)
	status, err := json.Marshal(plain)
	if err != nil {
		return fmt.Errorf("encoding the status: %w", err)
	}
	// That of a NamespaceMap grows with the namespaces of this cluster, and is bounded by the API server.
	if len(status) > maxStatus && item.resource.Resource != "namespacemaps" {
		return fmt.Errorf("its status in cluster %q has %d KiB, and at most %d KiB are copied: an administrator of that cluster must correct it", r.peer.id, len(status)>>10, maxStatus>>10)
	}
	if r.writes[item] == nil {
		r.writes[item] = &budget.Object{}
	}
	if wait := r.budget.Take(r.writes[item], local.GetUID(), len(status), r.now()); wait > 0 {
		log.FromContext(ctx).V(1).Info("The status changes too often, waiting", "resource", item.resource.Resource, "name", item.name, "after", wait)
		r.queue.AddAfter(item, wait)
		return nil
	}
	updated := local.DeepCopy()
	updated.Object["status"] = plain
	_, err = locals.UpdateStatus(ctx, updated, metav1.UpdateOptions{})
	return err //nolint:wrapcheck // act names the step.
}

// checkOrigin returns an error if the local object of a copy exists in another namespace.
func (r *reflector) checkOrigin(ctx context.Context, item key, origin string) error {
	_, err := r.local.Resource(item.resource).Namespace(origin).Get(ctx, item.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading %s/%s: %w", origin, item.name, err)
	default:
		return fmt.Errorf("the object in cluster %q is the copy of %s/%s, which exists: delete one of the two local objects", r.peer.id, origin, item.name)
	}
}

// confirmGone returns a conflict if the API server has the local object that the cache does not
// have: the first list may be older than the object.
func (r *reflector) confirmGone(ctx context.Context, item key) error {
	_, err := r.local.Resource(item.resource).Namespace(r.peer.localNamespace).Get(ctx, item.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading the local object: %w", err)
	default:
		return apierrors.NewConflict(item.resource.GroupResource(), item.name, errors.New("the cache does not have the local object yet"))
	}
}

// checkExisting returns an error if the existing remote object is not a copy of this cluster. The
// watch delivers a copy of this cluster.
func (r *reflector) checkExisting(ctx context.Context, remotes dynamic.ResourceInterface, name string) error {
	existing, err := remotes.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the existing object: %w", err)
	}
	if labels := existing.GetLabels(); labels[liqocorev1beta1.OriginIDLabel] != r.own || labels[liqocorev1beta1.ReplicatedLabel] != "true" {
		return fmt.Errorf("namespace %q of cluster %q has an unmanaged object with this name: delete it there",
			r.peer.remoteNamespace, r.peer.id)
	}
	return nil
}

func patchFinalizers(ctx context.Context, client dynamic.ResourceInterface, obj *unstructured.Unstructured, finalizers []string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"finalizers": finalizers, "resourceVersion": obj.GetResourceVersion(), "uid": obj.GetUID(),
	}})
	if err != nil {
		return fmt.Errorf("encoding finalizers: %w", err)
	}
	_, err = client.Patch(ctx, obj.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("patching finalizers: %w", err)
	}
	return nil
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
