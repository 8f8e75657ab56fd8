package namespaceoffloading

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// HandleMappings returns a handler of NamespaceMaps. For a change, it enqueues requests for the
// namespaces whose mapping differs: one NamespaceMap has those of all namespaces of a provider, and
// each namespace changes it several times. For a NamespaceMap that is new, is deleted or changes its
// labels, it enqueues the requests of all.
func HandleMappings(of func(namespace string) reconcile.Request, all func(context.Context) []reconcile.Request) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	enqueue := func(q queue, requests []reconcile.Request) {
		for _, each := range requests {
			q.Add(each)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, _ event.CreateEvent, q queue) { enqueue(q, all(ctx)) },
		DeleteFunc: func(ctx context.Context, _ event.DeleteEvent, q queue) { enqueue(q, all(ctx)) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			names, ok := changedMappings(e.ObjectOld, e.ObjectNew)
			if !ok {
				enqueue(q, all(ctx))
			}
			for _, name := range names {
				q.Add(of(name))
			}
		},
	}
}

// changedMappings returns the namespaces whose mapping differs between two states of a NamespaceMap. It
// returns false if all may be concerned.
func changedMappings(before, after client.Object) ([]string, bool) {
	was, isMap := before.(*offloadingv1beta1.NamespaceMap)
	is, ok := after.(*offloadingv1beta1.NamespaceMap)
	if !isMap || !ok || !maps.Equal(was.Labels, is.Labels) || was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero() {
		return nil, false
	}
	names := map[string]bool{}
	collectChanges(names, was.Spec.DesiredMapping, is.Spec.DesiredMapping)
	collectChanges(names, was.Status.CurrentMapping, is.Status.CurrentMapping)
	return slices.Sorted(maps.Keys(names)), true
}

// collectChanges adds the keys whose values differ between two maps.
func collectChanges[V any](names map[string]bool, before, after map[string]V) {
	for name, value := range after {
		if previous, found := before[name]; !found || !equality.Semantic.DeepEqual(previous, value) {
			names[name] = true
		}
	}
	for name := range before {
		if _, found := after[name]; !found {
			names[name] = true
		}
	}
}
