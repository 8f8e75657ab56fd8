// Package access manages the RoleBindings of virtual kubelets in offloaded namespaces, which
// permit to read Secrets and to write pods. A RoleBinding is created when the namespace is
// offloaded and deleted when the last pod on the virtual node has left the namespace. Pods on a
// virtual node in other namespaces (for example of a DaemonSet that tolerates everything) are
// ended here, because the virtual kubelet has no access to them.
//
// A RoleBinding exists before the mapping of the namespace is answered. It stays while the namespace
// is mapped, and while a pod on the virtual node is there, since only the virtual kubelet can confirm
// that pod's end.
package access

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/namespaceoffloading"
	"github.com/longshore-dev/longshore/host/consumer/virtualnode"
	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
	"github.com/longshore-dev/longshore/host/kit/retry"
)

const (
	// podDelay batches the events of pods.
	podDelay = 200 * time.Millisecond

	reasonNameTaken = "NameTaken"
	actionGrant     = "GrantAccess"
)

// Pods provides the pods on virtual nodes. NodePods implements it.
type Pods interface {
	Follow(nodes map[string]bool) error
	In(node, namespace string) (pods []*metav1.PartialObjectMetadata, known bool)
}

// Reconciler reconciles the RoleBindings of virtual kubelets, one namespace at a time.
type Reconciler struct {
	// Client reads from the manager's cache.
	Client client.Client
	// APIReader reads the pods of virtual nodes, which are not cached.
	APIReader client.Reader
	// Events records on NamespaceOffloadings and pods.
	Events events.EventRecorder
	Clock  clock.PassiveClock
	Pods   Pods
}

// SetupWithManager registers watches. Requests have the name of a namespace. pods is the Pods of
// the Reconciler.
//
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=rolebindings,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,resourceNames=longshore-virtual-kubelet-namespace,verbs=bind
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=namespaceoffloadings;namespacemaps;virtualnodes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces;nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, pods *NodePods) error {
	own := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		return []reconcile.Request{request(object.GetNamespace())}
	})
	all := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request { return r.all(ctx) })
	virtual := predicate.NewPredicateFuncs(func(object client.Object) bool {
		return object.GetLabels()[offloadingv1beta1.NodeTypeLabel] == offloadingv1beta1.NodeTypeVirtual
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("access").
		Watches(&offloadingv1beta1.NamespaceOffloading{}, own).
		Watches(&rbacv1.RoleBinding{}, own, builder.WithPredicates(predicate.NewPredicateFuncs(isAccess))).
		Watches(&offloadingv1beta1.VirtualNode{}, all, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&offloadingv1beta1.NamespaceMap{}, namespaceoffloading.HandleMappings(request, r.all)).
		Watches(&corev1.Node{}, all, builder.WithPredicates(virtual, predicate.LabelChangedPredicate{})).
		WatchesRawSource(source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			pods.Start(ctx, func(namespace string) { queue.AddAfter(request(namespace), podDelay) }, func() {
				for _, each := range r.all(ctx) {
					queue.Add(each)
				}
			})
			return nil
		})).
		WithOptions(controller.Options{RateLimiter: retry.Limiter[reconcile.Request]()}).
		Complete(r)
}

func request(namespace string) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Name: namespace}}
}

// isAccess reports whether an object is a RoleBinding that this package manages.
func isAccess(object client.Object) bool {
	binding, ok := object.(*rbacv1.RoleBinding)
	return ok && binding.RoleRef.Kind == "ClusterRole" && binding.RoleRef.Name == virtualkubelet.NamespaceRole &&
		binding.Labels[liqocorev1beta1.RemoteClusterIDLabel] != ""
}

// all returns requests for the namespaces with a NamespaceOffloading, a RoleBinding or a VirtualNode. The
// last are for the pods of VirtualNodes: the first reconcile follows them, also when no namespace is offloaded.
func (r *Reconciler) all(ctx context.Context) []reconcile.Request {
	offloadings, bindings, virtualNodes := &offloadingv1beta1.NamespaceOffloadingList{}, &rbacv1.RoleBindingList{}, &offloadingv1beta1.VirtualNodeList{}
	err := errors.Join(r.Client.List(ctx, offloadings), r.Client.List(ctx, bindings, client.HasLabels{liqocorev1beta1.RemoteClusterIDLabel}), r.Client.List(ctx, virtualNodes))
	if err != nil {
		// Listing from the cache fails only while the manager stops.
		ctrl.LoggerFrom(ctx).Error(err, "Listing the offloaded namespaces failed")
	}
	var requests []reconcile.Request
	for _, namespace := range namespacesOf(virtualNodes.Items) {
		requests = append(requests, request(namespace))
	}
	for i := range offloadings.Items {
		requests = append(requests, request(offloadings.Items[i].Namespace))
	}
	for i := range bindings.Items {
		if isAccess(&bindings.Items[i]) {
			requests = append(requests, request(bindings.Items[i].Namespace))
		}
	}
	slices.SortFunc(requests, func(a, b reconcile.Request) int { return strings.Compare(a.Name, b.Name) })
	return slices.Compact(requests)
}

// Reconcile reconciles the RoleBindings of one namespace.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (ctrl.Result, error) {
	s, err := r.gather(ctx, request.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	nodes := map[string]bool{}
	for i := range s.virtualNodes {
		nodes[s.virtualNodes[i].Name] = true
	}
	if err := r.Pods.Follow(nodes); err != nil {
		return ctrl.Result{}, err
	}
	var errs []error
	for i := range s.virtualNodes {
		errs = append(errs, r.reconcileNode(ctx, s, &s.virtualNodes[i]))
	}
	for _, binding := range s.bindings { // Those without a VirtualNode.
		if !s.awaitsWithdrawal(binding) {
			errs = append(errs, r.revoke(ctx, binding))
		}
	}
	return ctrl.Result{}, errors.Join(errs...)
}

// reconcileNode reconciles the RoleBinding of one virtual node.
func (r *Reconciler) reconcileNode(ctx context.Context, s *scope, vn *offloadingv1beta1.VirtualNode) error {
	name := virtualkubelet.NamespaceBindingName(vn.Namespace, vn.Name)
	binding := s.bindings[name]
	delete(s.bindings, name)
	pods, known := r.Pods.In(vn.Name, s.name)
	switch decide(s, vn, binding, len(pods) > 0 || !known) {
	case grant:
		return r.grant(ctx, s, vn)
	case revoke:
		return r.revoke(ctx, binding)
	case endPods:
		return r.endPods(ctx, vn, pods)
	default:
		return nil
	}
}

// grant creates the RoleBinding of a virtual kubelet.
func (r *Reconciler) grant(ctx context.Context, s *scope, vn *offloadingv1beta1.VirtualNode) error {
	desired := virtualkubelet.NamespaceBinding(vn, s.name)
	err := r.Client.Create(ctx, desired, client.FieldOwner(virtualnode.FieldManager))
	if client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("creating RoleBinding %s/%s: %w", desired.Namespace, desired.Name, err)
	}
	if err == nil {
		return nil
	}
	current := &rbacv1.RoleBinding{}
	if err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(desired), current); err != nil {
		return fmt.Errorf("reading RoleBinding %s/%s: %w", desired.Namespace, desired.Name, err)
	}
	if !isAccess(current) && s.offloading != nil {
		r.Events.Eventf(s.offloading, current, corev1.EventTypeWarning, reasonNameTaken, actionGrant,
			"RoleBinding %s is not managed by Longshore, and virtual kubelet %s has no access to this namespace. Delete the RoleBinding.",
			current.Name, vn.Name)
	}
	return nil // Otherwise the cache is stale.
}

// revoke removes the finalizer of a RoleBinding, beside those of others, and deletes it.
func (r *Reconciler) revoke(ctx context.Context, binding *rbacv1.RoleBinding) error {
	key, before := client.ObjectKeyFromObject(binding), binding.DeepCopy()
	if controllerutil.RemoveFinalizer(binding, virtualkubelet.AccessFinalizer) {
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := r.Client.Patch(ctx, binding, patch); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("removing the finalizer of RoleBinding %s: %w", key, err)
		}
	}
	if !binding.DeletionTimestamp.IsZero() {
		return nil
	}
	if err := r.Client.Delete(ctx, binding, client.Preconditions{UID: &before.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting RoleBinding %s: %w", key, err)
	}
	return nil
}

// gather reads the state from the cache.
func (r *Reconciler) gather(ctx context.Context, name string) (*scope, error) {
	s := &scope{name: name, bindings: map[string]*rbacv1.RoleBinding{}, namespaces: map[string]*corev1.Namespace{}}
	virtualNodes, nodes := &offloadingv1beta1.VirtualNodeList{}, &corev1.NodeList{}
	offloadings, bindings, nsMaps := &offloadingv1beta1.NamespaceOffloadingList{}, &rbacv1.RoleBindingList{}, &offloadingv1beta1.NamespaceMapList{}
	err := errors.Join(
		r.Client.List(ctx, virtualNodes),
		r.Client.List(ctx, nodes, client.MatchingLabels{offloadingv1beta1.NodeTypeLabel: offloadingv1beta1.NodeTypeVirtual}),
		r.Client.List(ctx, offloadings, client.InNamespace(name)), r.Client.List(ctx, bindings, client.InNamespace(name)),
		r.Client.List(ctx, nsMaps, client.MatchingLabels{liqocorev1beta1.ReplicationLabel: "true"}),
	)
	if err != nil {
		return nil, fmt.Errorf("reading the state of namespace %q: %w", name, err)
	}
	s.virtualNodes, s.maps = virtualNodes.Items, nsMaps.Items
	for _, needed := range append(namespacesOf(s.virtualNodes), name) {
		namespace := &corev1.Namespace{}
		if err := r.Client.Get(ctx, client.ObjectKey{Name: needed}, namespace); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading namespace %q: %w", needed, err)
		} else if err == nil {
			s.namespaces[needed] = namespace
		}
	}
	for i := range offloadings.Items {
		if offloadings.Items[i].Name == offloadingv1beta1.NamespaceOffloadingName {
			s.offloading = &offloadings.Items[i]
		}
	}
	for i := range bindings.Items {
		if isAccess(&bindings.Items[i]) {
			s.bindings[bindings.Items[i].Name] = &bindings.Items[i]
		}
	}
	if s.offloading != nil {
		byName := map[string]*corev1.Node{}
		for i := range nodes.Items {
			byName[nodes.Items[i].Name] = &nodes.Items[i]
		}
		// An invalid selector selects no provider. The controller of NamespaceOffloadings reports it.
		s.selected, _ = namespaceoffloading.Selected(&s.offloading.Spec.ClusterSelector, s.virtualNodes, byName)
	}
	return s, nil
}

func namespacesOf(virtualNodes []offloadingv1beta1.VirtualNode) []string {
	names := make([]string, 0, len(virtualNodes)+1)
	for i := range virtualNodes {
		names = append(names, virtualNodes[i].Namespace)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
