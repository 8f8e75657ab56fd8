// Package shadowendpointslice turns each ShadowEndpointSlice into an EndpointSlice on the
// provider, so that remote pods reach endpoints of their consumer.
//
// Endpoints are ready while the provider reaches the consumer. The garbage collector deletes
// the EndpointSlice of a deleted ShadowEndpointSlice.
package shadowendpointslice

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	networkingv1beta1 "github.com/longshore-dev/longshore/host/apis/networking/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/provider"
	"github.com/longshore-dev/longshore/host/kit/address"
	"github.com/longshore-dev/longshore/host/kit/fair"
	"github.com/longshore-dev/longshore/host/kit/reported"
	"github.com/longshore-dev/longshore/host/provider/metadata"
	"github.com/longshore-dev/longshore/host/provider/refusal"
)

// FieldManager is the field manager of this controller's writes.
const FieldManager = "shadow-endpointslice-controller"

// unmanagedRetry is how soon the creation is tried again when an unmanaged EndpointSlice has the
// name. Its end causes no event.
const unmanagedRetry = 30 * time.Second

// Reasons of the events on a ShadowEndpointSlice. Its consumer copies them.
const (
	// ReasonConflict: an unmanaged EndpointSlice has the name.
	ReasonConflict = "EndpointSliceConflict"
	// ReasonRefused: the API server refuses the EndpointSlice.
	ReasonRefused = "EndpointSliceRefused"
	// ReasonNotTranslated: addresses of the consumer cannot be translated.
	ReasonNotTranslated = "AddressesNotTranslated"
	// ReasonContested: another writer keeps changing the EndpointSlice.
	ReasonContested = "EndpointSliceContested"
)

const actionCreate = "CreateEndpointSlice"

// Reconciler turns ShadowEndpointSlices into EndpointSlices.
type Reconciler struct {
	// Client reads from the manager's cache, which holds EndpointSlices with the managed-by
	// label only, and these and ShadowEndpointSlices as Trim leaves them.
	Client client.Client
	// APIReader reads what the cache does not hold.
	APIReader client.Reader
	// Events records on the ShadowEndpointSlice.
	Events events.EventRecorder
	// Clock is the time source.
	Clock clock.PassiveClock

	// writes holds the contest.LastWrite of each EndpointSlice, by name.
	writes sync.Map
}

// SetupWithManager watches ShadowEndpointSlices, the EndpointSlices that they own, and the
// ForeignClusters and Configurations of consumers.
//
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=shadowendpointslices,verbs=get;list;watch
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=core.liqo.io,resources=foreignclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=networking.liqo.io,resources=configurations,verbs=get;list;watch
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, workers int) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("shadowendpointslice").
		For(&offloadingv1beta1.ShadowEndpointSlice{}).
		Owns(&discoveryv1.EndpointSlice{}).
		Watches(&liqocorev1beta1.ForeignCluster{}, handler.EnqueueRequestsFromMapFunc(r.slicesOf), builder.WithPredicates(reachabilityChanged())).
		Watches(&networkingv1beta1.Configuration{}, handler.EnqueueRequestsFromMapFunc(r.slicesOf)).
		WithOptions(fair.Options(mgr.GetClient(), workers)).
		Complete(reported.Reconciler(r))
}

// reachabilityChanged passes ForeignClusters that appear or vanish, and changes of whether they
// are reachable.
func reachabilityChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, okBefore := e.ObjectOld.(*liqocorev1beta1.ForeignCluster)
		after, okAfter := e.ObjectNew.(*liqocorev1beta1.ForeignCluster)
		return okBefore && okAfter && isReachable(before) != isReachable(after)
	}}
}

// slicesOf returns the ShadowEndpointSlices of the consumer that an object is about.
func (r *Reconciler) slicesOf(ctx context.Context, object client.Object) []reconcile.Request {
	cluster := object.GetLabels()[liqocorev1beta1.RemoteClusterIDLabel]
	if fc, ok := object.(*liqocorev1beta1.ForeignCluster); ok {
		cluster = string(fc.Spec.ClusterID)
	}
	if cluster == "" {
		return nil
	}
	slices := &offloadingv1beta1.ShadowEndpointSliceList{}
	if err := r.Client.List(ctx, slices, client.MatchingLabels{offloadingv1beta1.OriginLabel: cluster}); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing ShadowEndpointSlices failed", "cluster", cluster)
		return nil
	}
	requests := make([]reconcile.Request, 0, len(slices.Items))
	for i := range slices.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&slices.Items[i])})
	}
	return requests
}

// Reconcile creates or updates the EndpointSlice of one ShadowEndpointSlice.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (ctrl.Result, error) {
	shadow, err := r.readShadow(ctx, request.NamespacedName)
	switch {
	case apierrors.IsNotFound(err):
		r.writes.Delete(request.NamespacedName)
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, err
	case !shadow.DeletionTimestamp.IsZero():
		return ctrl.Result{}, nil
	}
	cluster, err := r.foreignCluster(ctx, originOf(shadow))
	if err != nil {
		return ctrl.Result{}, err
	}
	// Translated anew each time: the Configuration of the consumer may change.
	addresses, err := address.Load(ctx, r.Client, originOf(shadow))
	if err != nil {
		r.Events.Eventf(shadow, nil, corev1.EventTypeWarning, ReasonNotTranslated, actionCreate,
			"The EndpointSlice is not updated, because the addresses of cluster %q cannot be translated: %v. The administrator of the provider completes the Configuration.", originOf(shadow), err)
		return ctrl.Result{}, fmt.Errorf("translating the addresses of ShadowEndpointSlice %s: %w", request, reported.Error(err))
	}
	desired, leftOut := provider.EndpointSlice(shadow, isReachable(cluster), addresses.Translate)
	if len(leftOut) > 0 {
		r.Events.Eventf(shadow, nil, corev1.EventTypeWarning, ReasonNotTranslated, actionCreate,
			"Endpoints are left out of the EndpointSlice: %s", strings.Join(leftOut, "; "))
	}
	current, err := r.readSlice(ctx, request.NamespacedName)
	switch {
	case apierrors.IsNotFound(err):
		if pause := r.pause(shadow, desired); pause > 0 {
			return ctrl.Result{RequeueAfter: pause}, nil
		}
		return r.create(ctx, shadow, desired)
	case err != nil:
		return ctrl.Result{}, err
	}
	return r.update(ctx, shadow, current, desired)
}

// foreignCluster returns the ForeignCluster of a consumer, nil when there is none.
func (r *Reconciler) foreignCluster(ctx context.Context, id liqocorev1beta1.ClusterID) (*liqocorev1beta1.ForeignCluster, error) {
	clusters := &liqocorev1beta1.ForeignClusterList{}
	if err := r.Client.List(ctx, clusters); err != nil {
		return nil, fmt.Errorf("listing ForeignClusters: %w", err)
	}
	for i := range clusters.Items {
		if clusters.Items[i].Spec.ClusterID == id {
			return &clusters.Items[i], nil
		}
	}
	return nil, nil
}

func (r *Reconciler) create(ctx context.Context, shadow *offloadingv1beta1.ShadowEndpointSlice, desired *discoveryv1.EndpointSlice) (ctrl.Result, error) {
	key := client.ObjectKeyFromObject(desired)
	err := r.Client.Create(ctx, desired.DeepCopy(), client.FieldOwner(FieldManager))
	switch {
	case err == nil:
		r.wrote(shadow, desired)
		return ctrl.Result{}, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return ctrl.Result{}, nil
	case !apierrors.IsAlreadyExists(err):
		return ctrl.Result{}, fmt.Errorf("creating EndpointSlice %s: %w", key, r.reportRefusal(shadow, err))
	}
	// The EndpointSlice may exist without the label that the cache selects by.
	current := &discoveryv1.EndpointSlice{}
	if err := r.APIReader.Get(ctx, key, current); err != nil {
		return ctrl.Result{}, fmt.Errorf("reading EndpointSlice %s: %w", key, err)
	}
	return r.update(ctx, shadow, current, desired)
}

// update patches the EndpointSlice if it is controlled by the ShadowEndpointSlice. Another
// EndpointSlice of the same name is never changed.
func (r *Reconciler) update(ctx context.Context, shadow *offloadingv1beta1.ShadowEndpointSlice, current, desired *discoveryv1.EndpointSlice) (ctrl.Result, error) {
	key := client.ObjectKeyFromObject(current)
	isOwn := metav1.IsControlledBy(current, shadow)
	switch {
	case !isOwn && metadata.WasCreatedFor(current, offloadingv1beta1.ShadowEndpointSliceGVK):
		// It is of an earlier ShadowEndpointSlice, and the garbage collector deletes it.
		return ctrl.Result{RequeueAfter: unmanagedRetry}, nil
	case !isOwn:
		r.Events.Eventf(shadow, current, corev1.EventTypeWarning, ReasonConflict, actionCreate,
			"EndpointSlice %q exists and is not controlled by the ShadowEndpointSlice", current.Name)
		return ctrl.Result{RequeueAfter: unmanagedRetry}, nil
	case !current.DeletionTimestamp.IsZero():
		return ctrl.Result{}, nil
	case current.AddressType != desired.AddressType: // immutable; the deletion causes a creation
		err := r.Client.Delete(ctx, current, client.Preconditions{UID: &current.UID})
		if client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, fmt.Errorf("deleting EndpointSlice %s: %w", key, err)
		}
		return ctrl.Result{}, nil
	}
	body, err := diff(current, desired)
	if err != nil || body == nil {
		return ctrl.Result{}, err
	}
	if pause := r.pause(shadow, desired); pause > 0 {
		return ctrl.Result{RequeueAfter: pause}, nil
	}
	err = r.Client.Patch(ctx, current, client.RawPatch(types.MergePatchType, body), client.FieldOwner(FieldManager))
	switch {
	case err == nil:
		r.wrote(shadow, desired)
	case !apierrors.IsNotFound(err):
		return ctrl.Result{}, fmt.Errorf("patching EndpointSlice %s: %w", key, r.reportRefusal(shadow, err))
	}
	return ctrl.Result{}, nil
}

// reportRefusal records an event if an error is a refusal, which its retries do not resolve. It returns the error.
func (r *Reconciler) reportRefusal(shadow *offloadingv1beta1.ShadowEndpointSlice, err error) error {
	message := refusal.Message(err)
	if message == "" {
		return err
	}
	r.Events.Eventf(shadow, nil, corev1.EventTypeWarning, ReasonRefused, actionCreate, "EndpointSlice not written: %s", message)
	return reported.Error(err)
}

// diff returns the merge patch from one EndpointSlice to another, nil when they are equal.
func diff(current, desired *discoveryv1.EndpointSlice) ([]byte, error) {
	changes, err := metadata.Compare(current, desired, FieldManager)
	if err != nil {
		return nil, fmt.Errorf("comparing the metadata of EndpointSlice %s/%s: %w", current.Namespace, current.Name, err)
	}
	body := map[string]any{}
	if !equality.Semantic.DeepEqual(current.Endpoints, desired.Endpoints) {
		body["endpoints"] = desired.Endpoints
	}
	if !equality.Semantic.DeepEqual(current.Ports, withDefaults(desired.Ports)) {
		body["ports"] = desired.Ports
	}
	if len(body) == 0 && changes.IsEmpty() {
		return nil, nil
	}
	body["metadata"] = changes.Patch(current)
	data, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encoding a patch of EndpointSlice %s/%s: %w", current.Namespace, current.Name, err)
	}
	return data, nil
}

// withDefaults sets the defaults of the API server: an empty name and protocol TCP.
func withDefaults(ports []discoveryv1.EndpointPort) []discoveryv1.EndpointPort {
	defaulted := make([]discoveryv1.EndpointPort, 0, len(ports))
	for _, port := range ports {
		if port.Name == nil {
			port.Name = new(string)
		}
		if port.Protocol == nil {
			protocol := corev1.ProtocolTCP
			port.Protocol = &protocol
		}
		defaulted = append(defaulted, port)
	}
	return defaulted
}
