// Package namespacemap makes the namespaces that a consumer's NamespaceMap asks for on
// the provider, lets the consumer's identity into them, and takes them away again
// (wire 6.5).
package namespacemap

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	kitevents "github.com/longshore-dev/longshore/host/kit/events"
	"github.com/longshore-dev/longshore/host/kit/retry"
)

// maxMessage bounds what the status quotes, in bytes.
const maxMessage = 1024

// Event reasons and actions on the NamespaceMap.
const (
	reasonMappingFailed = "MappingFailed"
	reasonRestored      = "NamespaceRestored"
	actionMapNamespace  = "MapNamespace"
)

var (
	// errNotManaged marks a mapping to a namespace that belongs to the provider or to
	// another NamespaceMap.
	errNotManaged = errors.New("the namespace exists and was not made for this NamespaceMap")
	// errShared marks a mapping that waits for another one of the same map to go (T75).
	errShared = errors.New("two namespaces cannot share one, since un-offloading either would delete it for both")
	// errReserved marks a mapping to a name that the consumer may not have.
	errReserved = errors.New("the provider does not give this name to the cluster")
	// errTerminating marks a mapping that waits for the end of a namespace.
	errTerminating = errors.New("the namespace is still being deleted")
	// errStale marks a pass over a cached NamespaceMap that has changed since.
	errStale = errors.New("the cache is stale")
	// errNoTenant marks a NamespaceMap that is in no tenant namespace, so that its consumer
	// is unknown.
	errNoTenant = errors.New("not a tenant namespace of a cluster")
)

// Reconciler makes and removes the namespaces of replicated NamespaceMaps.
type Reconciler struct {
	// Client reads namespaces and role bindings from the manager's cache.
	Client client.Client
	// APIReader reads what must not be out of date: that a NamespaceMap is as it is cached.
	APIReader client.Reader
	// Events records on the NamespaceMap.
	Events events.EventRecorder
	// Names decides which names consumers may choose.
	Names Names
}

// SetupWithManager registers watches: replicated NamespaceMaps, and the namespaces and
// role bindings made for them.
//
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=namespacemaps,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=namespacemaps/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=rolebindings,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,resourceNames=liqo-virtual-kubelet-remote,verbs=bind
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("namespacemap-provider").
		For(&offloadingv1beta1.NamespaceMap{}, builder.WithPredicates(predicate.NewPredicateFuncs(concerns))).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(owner), builder.WithPredicates(managed())).
		Watches(&rbacv1.RoleBinding{}, handler.EnqueueRequestsFromMapFunc(owner), builder.WithPredicates(managed())).
		WithOptions(controller.Options{RateLimiter: retry.Limiter[reconcile.Request]()}).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
}

// managed lets through what is annotated as made for a NamespaceMap, or was until now.
func managed() predicate.Predicate {
	annotated := func(obj client.Object) bool {
		_, ok := obj.GetAnnotations()[offloadingv1beta1.ManagedByNamespaceMapAnnotation]
		return ok
	}
	all := predicate.NewPredicateFuncs(annotated)
	return predicate.Funcs{
		CreateFunc: all.Create, DeleteFunc: all.Delete, GenericFunc: all.Generic,
		UpdateFunc: func(e event.UpdateEvent) bool { return annotated(e.ObjectOld) || annotated(e.ObjectNew) },
	}
}

// concerns reports whether a NamespaceMap is this controller's: a consumer replicated it, or
// namespaces were made for it, whatever its labels say now.
func concerns(obj client.Object) bool {
	return isReplicated(obj) || controllerutil.ContainsFinalizer(obj, offloadingv1beta1.NamespaceMapFinalizer)
}

func isReplicated(obj client.Object) bool {
	labels := obj.GetLabels()
	return labels[liqocorev1beta1.OriginIDLabel] != "" && labels[liqocorev1beta1.ReplicatedLabel] == "true"
}

func owner(_ context.Context, obj client.Object) []reconcile.Request {
	namespace, name, ok := splitOwner(obj.GetAnnotations()[offloadingv1beta1.ManagedByNamespaceMapAnnotation])
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: namespace, Name: name}}}
}

// Reconcile brings the namespaces in line with one NamespaceMap.
func (r *Reconciler) Reconcile(ctx context.Context, nm *offloadingv1beta1.NamespaceMap) (ctrl.Result, error) {
	if !concerns(nm) {
		return ctrl.Result{}, nil
	}
	if nm.DeletionTimestamp.IsZero() && controllerutil.AddFinalizer(nm, offloadingv1beta1.NamespaceMapFinalizer) {
		if err := r.Client.Update(ctx, nm); err != nil {
			return ctrl.Result{}, fmt.Errorf("adding the finalizer to NamespaceMap %s: %w", Owner(nm), err)
		}
		return ctrl.Result{}, nil
	}
	before := nm.DeepCopy()
	desired := nm.Spec.DesiredMapping
	if !nm.DeletionTimestamp.IsZero() {
		desired = nil
	}
	if nm.Status.CurrentMapping == nil {
		nm.Status.CurrentMapping = map[string]offloadingv1beta1.RemoteNamespaceStatus{}
	}
	p := r.newPass(ctx, nm)
	left, err := 0, p.err
	if err == nil {
		left, err = p.remove(ctx, desired)
	}
	err = errors.Join(err, r.ensure(ctx, p, desired))
	if !equality.Semantic.DeepEqual(before.Status, nm.Status) {
		if patchErr := r.Client.Status().Patch(ctx, nm, client.MergeFrom(before)); client.IgnoreNotFound(patchErr) != nil {
			return ctrl.Result{}, errors.Join(err, fmt.Errorf("writing the status of NamespaceMap %s: %w", Owner(nm), patchErr))
		}
	}
	if err != nil || nm.DeletionTimestamp.IsZero() || left > 0 || len(nm.Status.CurrentMapping) > 0 {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.release(ctx, nm)
}

// release removes the finalizer of a NamespaceMap whose namespaces are gone.
func (r *Reconciler) release(ctx context.Context, nm *offloadingv1beta1.NamespaceMap) error {
	if !controllerutil.RemoveFinalizer(nm, offloadingv1beta1.NamespaceMapFinalizer) {
		return nil
	}
	if err := r.Client.Update(ctx, nm); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizer of NamespaceMap %s: %w", Owner(nm), err)
	}
	return nil
}

// newPass derives the consumer of a NamespaceMap.
func (r *Reconciler) newPass(ctx context.Context, nm *offloadingv1beta1.NamespaceMap) *pass {
	p := &pass{r: r, nm: nm}
	tenant := &corev1.Namespace{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: nm.Namespace}, tenant); err != nil {
		p.err = fmt.Errorf("reading tenant namespace %q: %w", nm.Namespace, err)
		return p
	}
	p.origin, p.err = Consumer(tenant)
	return p
}

// ensure makes every desired namespace and its role binding. A mapping that fails does
// not keep the others waiting.
func (r *Reconciler) ensure(ctx context.Context, p *pass, desired map[string]string) error {
	conflicts := Conflicts(desired, p.nm.Status.CurrentMapping)
	var errs []error
	for _, local := range slices.Sorted(maps.Keys(desired)) {
		err := conflicts[local]
		if err == nil {
			err = p.ensureOne(ctx, local, desired[local])
		}
		errs = append(errs, r.record(p.nm, local, desired[local], err))
	}
	return errors.Join(errs...)
}

// record writes the outcome of one mapping to the status and returns the error that a
// retry can cure, if any; what ends with an event is not retried. A transient error keeps
// an existing Accepted, so that a failing request never stops running pods
// (wire 6.5).
func (r *Reconciler) record(nm *offloadingv1beta1.NamespaceMap, local, remote string, err error) error {
	current, known := nm.Status.CurrentMapping[local]
	accepted := known && current.Phase == offloadingv1beta1.MappingAccepted
	status := offloadingv1beta1.RemoteNamespaceStatus{RemoteNamespace: remote, Phase: offloadingv1beta1.MappingAccepted}
	switch {
	case err == nil:
	case errors.Is(err, errTerminating):
		if !accepted {
			status.Phase = offloadingv1beta1.MappingTerminating
		}
		err = nil
	case accepted && isTransient(err):
		return err
	default:
		status.Phase, status.Message = offloadingv1beta1.MappingCreationLoopBackOff, kitevents.Cut(err.Error(), maxMessage)
		r.Events.Eventf(nm, nil, corev1.EventTypeWarning, reasonMappingFailed, actionMapNamespace,
			"Namespace %q for %q not made: %v", remote, local, err)
		if errors.Is(err, errShared) || errors.Is(err, errReserved) {
			err = nil
		}
	}
	nm.Status.CurrentMapping[local] = status
	return err
}

func isTransient(err error) bool {
	return !errors.Is(err, errNotManaged) && !errors.Is(err, errShared) && !errors.Is(err, errReserved) && !apierrors.IsInvalid(err)
}
