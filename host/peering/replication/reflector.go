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
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/log"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/retry"
)

// key names one replicated object; both ends share the name.
type key struct {
	resource schema.GroupVersionResource
	name     string
}

// peer is one provider and the pair of tenant namespaces that belong to it.
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
	// peerDead tells whether an administrator gave the peer up for good.
	peerDead func(ctx context.Context) (bool, error)
	// obstacles tells what keeps objects from being replicated.
	obstacles *obstacles

	queue           workqueue.TypedRateLimitingInterface[key]
	locals, remotes map[schema.GroupVersionResource]cache.SharedIndexInformer
}

const (
	// waitPoll is how soon an object that waits for its provider is looked at again: that
	// the provider was given up for good makes no event here.
	waitPoll = 5 * time.Second
)

// run replicates until the context ends.
func (r *reflector) run(ctx context.Context) error {
	r.queue = workqueue.NewTypedRateLimitingQueue(retry.Limiter[key]())
	var locals, remotes []cache.InformerSynced
	for _, resource := range r.resources {
		local, err := r.informer(r.local, resource, r.peer.localNamespace, map[string]string{
			liqocorev1beta1.ReplicationLabel: "true", liqocorev1beta1.RemoteIDLabel: r.peer.id,
		})
		if err != nil {
			return err
		}
		remote, err := r.informer(r.remote, resource, r.peer.remoteNamespace, map[string]string{
			liqocorev1beta1.OriginIDLabel: r.own, liqocorev1beta1.ReplicatedLabel: "true",
		})
		if err != nil {
			return err
		}
		if err := remote.SetWatchErrorHandlerWithContext(r.obstacles.watching(resource)); err != nil {
			return fmt.Errorf("watching %s in namespace %q: %w", resource.GroupResource(), r.peer.remoteNamespace, err)
		}
		r.locals[resource], r.remotes[resource] = local, remote
		locals, remotes = append(locals, local.HasSynced), append(remotes, remote.HasSynced)
	}
	var running sync.WaitGroup
	defer running.Wait()
	defer r.queue.ShutDown()
	for _, resource := range r.resources {
		running.Go(func() { r.locals[resource].RunWithContext(ctx) })
		running.Go(func() { r.remotes[resource].RunWithContext(ctx) })
	}
	if !cache.WaitForCacheSync(ctx.Done(), locals...) {
		return nil
	}
	// Not waiting for the provider: what it never answers for must be let go one day.
	running.Go(func() { r.work(ctx) })
	if cache.WaitForCacheSync(ctx.Done(), remotes...) {
		r.enqueueAll()
	}
	<-ctx.Done()
	return nil
}

// enqueueAll enqueues the local objects: those that met a provider not yet listed wait.
func (r *reflector) enqueueAll() {
	for resource, informer := range r.locals {
		for _, obj := range informer.GetStore().List() {
			if name, err := cache.ObjectToName(obj); err == nil {
				r.queue.Add(key{resource: resource, name: name.Name})
			}
		}
	}
}

func (r *reflector) informer(client dynamic.Interface, resource schema.GroupVersionResource, namespace string, selector map[string]string) (cache.SharedIndexInformer, error) {
	informer := dynamicinformer.NewFilteredDynamicInformer(client, resource, namespace, r.resync, cache.Indexers{},
		func(options *metav1.ListOptions) { options.LabelSelector = labels.SelectorFromSet(selector).String() }).Informer()
	enqueue := func(obj any) {
		if name, err := cache.DeletionHandlingObjectToName(obj); err == nil {
			r.queue.Add(key{resource: resource, name: name.Name})
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue, UpdateFunc: func(_, obj any) { enqueue(obj) }, DeleteFunc: enqueue,
	})
	if err != nil {
		return nil, fmt.Errorf("watching %s in namespace %q: %w", resource.GroupResource(), namespace, err)
	}
	return informer, nil
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
			log.FromContext(ctx).V(1).Info("The picture was out of date, looking again", "resource", item.resource.Resource, "name", item.name)
			r.queue.AddRateLimited(item)
		default:
			r.obstacles.tell(ctx, item, r.locals[item.resource].GetStore(), err)
			r.queue.AddRateLimited(item)
		}
		r.queue.Done(item)
	}
}

// replicate reads both ends of one object, plans, and acts.
func (r *reflector) replicate(ctx context.Context, item key) error {
	local, err := find(r.locals[item.resource].GetStore(), r.peer.localNamespace, item.name)
	if err != nil {
		return err
	}
	dead, err := r.peerDead(ctx)
	if err != nil {
		return fmt.Errorf("asking whether cluster %q was given up: %w", r.peer.id, err)
	}
	if !r.remotes[item.resource].HasSynced() && !dead {
		if err := r.obstacles.unreadable(item.resource); err != nil {
			r.obstacles.tell(ctx, item, r.locals[item.resource].GetStore(), err)
		}
		r.queue.AddAfter(item, waitPoll)
		return nil
	}
	remote, err := find(r.remotes[item.resource].GetStore(), r.peer.remoteNamespace, item.name)
	if err != nil {
		return err
	}
	steps := plan(local, remote, dead)
	for _, next := range steps {
		if err := r.act(ctx, next, item, local, remote); err != nil {
			return fmt.Errorf("%s of %s %q: %w", next, item.resource.Resource, item.name, err)
		}
	}
	r.obstacles.clear(item)
	if local != nil && local.GetDeletionTimestamp() != nil && !slices.Contains(steps, removeFinalizer) &&
		slices.Contains(local.GetFinalizers(), liqocorev1beta1.ReplicatorFinalizer) {
		r.queue.AddAfter(item, waitPoll)
	}
	return nil
}

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
	case createRemote:
		_, err = remotes.Create(ctx, forgeCopy(local, r.own, r.peer.remoteNamespace), metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			err = r.meet(ctx, remotes, item.name)
		}
	case updateRemote:
		updated := remote.DeepCopy()
		updated.Object["spec"] = local.Object["spec"]
		_, err = remotes.Update(ctx, updated, metav1.UpdateOptions{})
	case deleteRemote:
		uid := remote.GetUID()
		err = ignoreNotFound(remotes.Delete(ctx, item.name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}))
	case copyStatus:
		updated := local.DeepCopy()
		updated.Object["status"] = remote.Object["status"]
		_, err = locals.UpdateStatus(ctx, updated, metav1.UpdateOptions{})
	default:
		err = errors.New("unknown step")
	}
	return err
}

// meet looks at an object that was in the way: our own copy, which the watch is about to
// bring, or somebody else's, which is left alone.
func (r *reflector) meet(ctx context.Context, remotes dynamic.ResourceInterface, name string) error {
	existing, err := remotes.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading what holds the name: %w", err)
	}
	if labels := existing.GetLabels(); labels[liqocorev1beta1.OriginIDLabel] != r.own || labels[liqocorev1beta1.ReplicatedLabel] != "true" {
		return fmt.Errorf("an object of this name is in namespace %q of cluster %q and was not replicated from here: somebody must remove it there",
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

// find returns a private copy of a cached object, or nil.
func find(store cache.Store, namespace, name string) (*unstructured.Unstructured, error) {
	obj, exists, err := store.GetByKey(namespace + "/" + name)
	if err != nil {
		return nil, fmt.Errorf("reading the cache: %w", err)
	}
	if !exists {
		return nil, nil
	}
	found, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("cached %s/%s is a %T", namespace, name, obj)
	}
	return found.DeepCopy(), nil
}
