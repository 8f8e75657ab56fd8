// Package foreigncluster keeps one ForeignCluster per peer, from the objects that name it:
// which role the peer has, and how each part of the peering is.
package foreigncluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	networkingv1beta1 "github.com/longshore-dev/longshore/host/apis/networking/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/remotecluster"
	"github.com/longshore-dev/longshore/host/kit/retry"
)

// conflictRetry is how soon a status is computed again when the cached ForeignCluster is stale.
const conflictRetry = time.Second

// nodeDelay is how long changes of VirtualNodes and their Nodes are collected. All those of a provider
// change when a process that serves them starts, and when the provider is lost.
const nodeDelay = 500 * time.Millisecond

// Reconciler keeps ForeignClusters. Its keys are cluster IDs.
//
// +kubebuilder:rbac:groups=core.liqo.io,resources=foreignclusters,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=core.liqo.io,resources=foreignclusters/status,verbs=patch
// +kubebuilder:rbac:groups=authentication.liqo.io,resources=tenants;identities,verbs=get;list;watch
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=virtualnodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=networking.liqo.io,resources=configurations;connections,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
type Reconciler struct {
	// Client reads Secrets of tenant namespaces from the cache (package tenantsecrets).
	Client client.Client
	Clock  clock.PassiveClock
}

// SetupWithManager registers watches on everything that names a peer.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	byLabel := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		return request(clusterOf(object))
	})
	names := builder.WithPredicates(predicate.NewPredicateFuncs(func(object client.Object) bool { return clusterOf(object) != "" }))
	kubeconfigs := builder.WithPredicates(predicate.NewPredicateFuncs(isControlPlaneKubeconfig))
	virtual := builder.WithPredicates(predicate.NewPredicateFuncs(func(object client.Object) bool {
		return object.GetLabels()[offloadingv1beta1.NodeTypeLabel] == offloadingv1beta1.NodeTypeVirtual
	}))
	return ctrl.NewControllerManagedBy(mgr).Named("foreigncluster").
		Watches(&liqocorev1beta1.ForeignCluster{}, byLabel, names).
		Watches(&authv1beta1.Tenant{}, byLabel, names).
		Watches(&authv1beta1.Identity{}, byLabel, names).
		Watches(&offloadingv1beta1.VirtualNode{}, collect(), names).
		Watches(&networkingv1beta1.Configuration{}, byLabel, names).
		Watches(&networkingv1beta1.Connection{}, byLabel, names).
		Watches(&corev1.Secret{}, byLabel, kubeconfigs).
		Watches(&corev1.Node{}, collect(), virtual).
		WithOptions(controller.Options{RateLimiter: retry.Limiter[reconcile.Request]()}).
		Complete(r)
}

// collect returns a handler that enqueues the peers of objects after nodeDelay.
func collect() handler.EventHandler {
	type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]
	add := func(queue requests, objects ...client.Object) {
		for _, object := range objects {
			for _, r := range request(clusterOf(object)) {
				queue.AddAfter(r, nodeDelay)
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, queue requests) { add(queue, e.Object) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, queue requests) { add(queue, e.ObjectOld, e.ObjectNew) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, queue requests) { add(queue, e.Object) },
	}
}

// clusterOf returns the peer that an object names, or "".
func clusterOf(object client.Object) string {
	if id := object.GetLabels()[liqocorev1beta1.RemoteClusterIDLabel]; id != "" {
		return id
	}
	switch typed := object.(type) {
	case *liqocorev1beta1.ForeignCluster:
		return string(typed.Spec.ClusterID)
	case *authv1beta1.Tenant:
		return string(typed.Spec.ClusterID)
	case *authv1beta1.Identity:
		return string(typed.Spec.ClusterID)
	case *offloadingv1beta1.VirtualNode:
		return string(typed.Spec.ClusterID)
	default:
		return ""
	}
}

func request(cluster string) []reconcile.Request {
	if cluster == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: cluster}}}
}

// Reconcile creates the ForeignCluster of a peer when there is none and anything names the
// peer, and writes its status once, complete (F1).
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	cluster := liqocorev1beta1.ClusterID(request.Name)
	if cluster.Validate() != nil {
		return ctrl.Result{}, nil // A label that is not a cluster ID names no peer.
	}
	f, err := r.gather(ctx, cluster)
	if err != nil {
		return ctrl.Result{}, err
	}
	fc, err := findForeignCluster(ctx, r.Client, cluster)
	if err != nil {
		return ctrl.Result{}, err
	}
	if fc == nil {
		if role(f) == liqocorev1beta1.UnknownRole {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, r.create(ctx, cluster)
	}
	before := fc.DeepCopy()
	fc.Status = decide(fc, f, metav1.NewTime(r.Clock.Now()))
	if equality.Semantic.DeepEqual(before.Status, fc.Status) {
		return ctrl.Result{}, nil
	}
	// A patch of an absent status has all fields, including those of other writers.
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	switch err := r.Client.Status().Patch(ctx, fc, patch); {
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: conflictRetry}, nil
	case client.IgnoreNotFound(err) != nil:
		return ctrl.Result{}, fmt.Errorf("patching the status of ForeignCluster %q: %w", fc.Name, err)
	}
	return ctrl.Result{}, nil
}

// findForeignCluster returns the oldest ForeignCluster of a peer, or nil.
func findForeignCluster(ctx context.Context, reader client.Reader, cluster liqocorev1beta1.ClusterID) (*liqocorev1beta1.ForeignCluster, error) {
	list := &liqocorev1beta1.ForeignClusterList{}
	if err := reader.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing ForeignClusters: %w", err)
	}
	list.Items = slices.DeleteFunc(list.Items, func(fc liqocorev1beta1.ForeignCluster) bool { return clusterOf(&fc) != string(cluster) })
	return oldest(list.Items), nil
}

func (r *Reconciler) create(ctx context.Context, cluster liqocorev1beta1.ClusterID) error {
	fc := &liqocorev1beta1.ForeignCluster{
		ObjectMeta: metav1.ObjectMeta{
			Name: string(cluster), Labels: map[string]string{liqocorev1beta1.RemoteClusterIDLabel: string(cluster)},
		},
		Spec: liqocorev1beta1.ForeignClusterSpec{ClusterID: cluster},
	}
	if err := r.Client.Create(ctx, fc); client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("creating ForeignCluster %q: %w", cluster, err)
	}
	return nil // Its creation enqueues the peer.
}

// gather reads the objects of a peer. What is being deleted counts until it is gone.
func (r *Reconciler) gather(ctx context.Context, cluster liqocorev1beta1.ClusterID) (*facts, error) {
	tenants, identities := &authv1beta1.TenantList{}, &authv1beta1.IdentityList{}
	configurations, connections := &networkingv1beta1.ConfigurationList{}, &networkingv1beta1.ConnectionList{}
	virtualNodes, nodes, secrets := &offloadingv1beta1.VirtualNodeList{}, &corev1.NodeList{}, &corev1.SecretList{}
	labels := client.MatchingLabels{liqocorev1beta1.RemoteClusterIDLabel: string(cluster)}
	err := errors.Join(r.Client.List(ctx, tenants), r.Client.List(ctx, identities), r.Client.List(ctx, virtualNodes),
		r.Client.List(ctx, nodes, labels), r.Client.List(ctx, configurations, labels), r.Client.List(ctx, connections, labels),
		r.Client.List(ctx, secrets, client.MatchingLabels{
			liqocorev1beta1.RemoteClusterIDLabel: string(cluster),
			authv1beta1.IdentityTypeLabel:        string(authv1beta1.ControlPlaneIdentityType),
		}))
	if err != nil {
		return nil, fmt.Errorf("listing the objects of cluster %q: %w", cluster, err)
	}
	f := &facts{
		nodes: nodes.Items, configuration: oldest(configurations.Items), connection: oldest(connections.Items),
		kubeconfig: oldest(secrets.Items),
		tenant: oldest(slices.DeleteFunc(tenants.Items, func(t authv1beta1.Tenant) bool {
			return t.Spec.ClusterID != cluster
		})),
		identity: oldest(slices.DeleteFunc(identities.Items, func(i authv1beta1.Identity) bool {
			return i.Spec.ClusterID != cluster || i.Spec.Type != authv1beta1.ControlPlaneIdentityType
		})),
		virtualNodes: slices.DeleteFunc(virtualNodes.Items, func(vn offloadingv1beta1.VirtualNode) bool {
			return vn.Spec.ClusterID != cluster
		}),
	}
	if f.kubeconfig != nil {
		// A Secret that is not usable has its message where it is used.
		if config, err := remotecluster.Config(f.kubeconfig, remotecluster.Limits{}); err == nil {
			f.server = config.Host
		}
	}
	return f, nil
}

// oldest returns the object that was created first, by name among equals, or nil.
func oldest[T any, P interface {
	*T
	client.Object
}](items []T) P {
	var first P
	for i := range items {
		item := P(&items[i])
		if first == nil || item.GetCreationTimestamp().Time.Before(first.GetCreationTimestamp().Time) ||
			item.GetCreationTimestamp() == first.GetCreationTimestamp() && item.GetName() < first.GetName() {
			first = item
		}
	}
	return first
}
