// Package namespacemap makes the namespaces that a consumer's NamespaceMap asks for on
// the provider, lets the consumer's identity into them, and takes them away again
// (reference 6.5).
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
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/retry"
)

// Event reasons and actions on the NamespaceMap.
const (
	reasonMappingFailed = "MappingFailed"
	actionMapNamespace  = "MapNamespace"
)

var (
	// errHeldByOther marks a mapping that only a person can repair.
	errHeldByOther = errors.New("the namespace exists and was not made for this NamespaceMap")
	// errShared marks a mapping that waits for another one of the same map to go (T75).
	errShared = errors.New("two namespaces cannot share one, since un-offloading either would delete it for both")
	// errLeaving marks a mapping that waits for the end of a namespace.
	errLeaving = errors.New("the namespace is still being deleted")
)

// Reconciler makes and removes the namespaces of replicated NamespaceMaps.
type Reconciler struct {
	// Client reads namespaces and role bindings from the manager's cache.
	Client client.Client
	// Events records on the NamespaceMap.
	Events events.EventRecorder
}

// SetupWithManager registers watches: replicated NamespaceMaps, and the namespaces and
// role bindings made for them.
//
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=namespacemaps,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=namespacemaps/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=rolebindings,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,resourceNames=liqo-virtual-kubelet-remote,verbs=bind
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	made := builder.WithPredicates(predicate.NewPredicateFuncs(func(obj client.Object) bool {
		_, ok := obj.GetAnnotations()[offloadingv1beta1.ManagedByNamespaceMapAnnotation]
		return ok
	}))
	return ctrl.NewControllerManagedBy(mgr).
		Named("namespacemap-provider").
		For(&offloadingv1beta1.NamespaceMap{}, builder.WithPredicates(predicate.NewPredicateFuncs(isReplicated))).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(owner), made).
		Watches(&rbacv1.RoleBinding{}, handler.EnqueueRequestsFromMapFunc(owner), made).
		WithOptions(controller.Options{RateLimiter: retry.Limiter[reconcile.Request]()}).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
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
	if !isReplicated(nm) {
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
	err := errors.Join(r.remove(ctx, nm, desired), r.ensure(ctx, nm, desired))
	if !equality.Semantic.DeepEqual(before.Status, nm.Status) {
		if patchErr := r.Client.Status().Patch(ctx, nm, client.MergeFrom(before)); client.IgnoreNotFound(patchErr) != nil {
			return ctrl.Result{}, errors.Join(err, fmt.Errorf("writing the status of NamespaceMap %s: %w", Owner(nm), patchErr))
		}
	}
	if err != nil || nm.DeletionTimestamp.IsZero() || len(nm.Status.CurrentMapping) > 0 {
		return ctrl.Result{}, err
	}
	if controllerutil.RemoveFinalizer(nm, offloadingv1beta1.NamespaceMapFinalizer) {
		if err := r.Client.Update(ctx, nm); client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, fmt.Errorf("removing the finalizer of NamespaceMap %s: %w", Owner(nm), err)
		}
	}
	return ctrl.Result{}, nil
}

// ensure makes every desired namespace and its role binding. A mapping that fails does
// not keep the others waiting.
func (r *Reconciler) ensure(ctx context.Context, nm *offloadingv1beta1.NamespaceMap, desired map[string]string) error {
	conflicts := Conflicts(desired, nm.Status.CurrentMapping)
	var errs []error
	for _, local := range slices.Sorted(maps.Keys(desired)) {
		err := conflicts[local]
		if err == nil {
			err = r.ensureOne(ctx, nm, local, desired[local])
		}
		errs = append(errs, r.record(nm, local, desired[local], err))
	}
	return errors.Join(errs...)
}

// record notes the outcome of one mapping in the status and returns the error that a
// retry can cure, if any; what ends with an event is not retried. A transient error keeps
// an existing Accepted, so that a hiccup of the API server never stops running pods
// (reference 6.5).
func (r *Reconciler) record(nm *offloadingv1beta1.NamespaceMap, local, remote string, err error) error {
	current, known := nm.Status.CurrentMapping[local]
	accepted := known && current.Phase == offloadingv1beta1.MappingAccepted
	status := offloadingv1beta1.RemoteNamespaceStatus{RemoteNamespace: remote, Phase: offloadingv1beta1.MappingAccepted}
	switch {
	case err == nil:
	case errors.Is(err, errLeaving):
		if !accepted {
			status.Phase = offloadingv1beta1.MappingTerminating
		}
		err = nil
	case accepted && isTransient(err):
		return err
	default:
		status.Phase = offloadingv1beta1.MappingCreationLoopBackOff
		r.Events.Eventf(nm, nil, corev1.EventTypeWarning, reasonMappingFailed, actionMapNamespace,
			"Namespace %q for %q not made: %v", remote, local, err)
		if errors.Is(err, errShared) {
			err = nil
		}
	}
	nm.Status.CurrentMapping[local] = status
	return err
}

func isTransient(err error) bool {
	return !errors.Is(err, errHeldByOther) && !errors.Is(err, errShared) && !apierrors.IsInvalid(err)
}

func (r *Reconciler) ensureOne(ctx context.Context, nm *offloadingv1beta1.NamespaceMap, local, remote string) error {
	origin := nm.Labels[liqocorev1beta1.OriginIDLabel]
	namespace := &corev1.Namespace{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: remote}, namespace)
	if apierrors.IsNotFound(err) {
		namespace = ForgeNamespace(nm, origin, local, remote)
		err = r.Client.Create(ctx, namespace)
	}
	switch {
	case err != nil:
		return fmt.Errorf("making namespace %q: %w", remote, err)
	case !OwnedBy(namespace, nm, origin):
		return fmt.Errorf("namespace %q: %w", remote, errHeldByOther)
	case !namespace.DeletionTimestamp.IsZero():
		return fmt.Errorf("namespace %q: %w", remote, errLeaving)
	case namespace.Annotations[offloadingv1beta1.OriginalNameAnnotation] != local:
		return fmt.Errorf("namespace %q was made for local namespace %q: %w",
			remote, namespace.Annotations[offloadingv1beta1.OriginalNameAnnotation], errShared)
	}
	binding := &rbacv1.RoleBinding{}
	err = r.Client.Get(ctx, client.ObjectKey{Namespace: remote, Name: nm.Namespace}, binding)
	if apierrors.IsNotFound(err) {
		err = r.Client.Create(ctx, ForgeRoleBinding(nm, origin, remote))
	}
	if client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("binding role %s in namespace %q: %w", RemoteRole, remote, err)
	}
	return nil
}

// remove deletes the namespaces that are mapped but no longer desired. An entry leaves
// the status when its namespace is gone, or was never ours.
func (r *Reconciler) remove(ctx context.Context, nm *offloadingv1beta1.NamespaceMap, desired map[string]string) error {
	var errs []error
	for _, local := range slices.Sorted(maps.Keys(nm.Status.CurrentMapping)) {
		current := nm.Status.CurrentMapping[local]
		if desired[local] == current.RemoteNamespace {
			continue
		}
		gone, err := r.removeOne(ctx, nm, local, current.RemoteNamespace)
		switch {
		case err != nil:
			errs = append(errs, err)
		case gone:
			delete(nm.Status.CurrentMapping, local)
		default:
			current.Phase = offloadingv1beta1.MappingTerminating
			nm.Status.CurrentMapping[local] = current
		}
	}
	return errors.Join(errs...)
}

// removeOne deletes the remote namespace of one mapping and reports whether nothing is
// left of it. A namespace that was made for another local namespace is not this
// mapping's to delete (T75).
func (r *Reconciler) removeOne(ctx context.Context, nm *offloadingv1beta1.NamespaceMap, local, remote string) (bool, error) {
	namespace := &corev1.Namespace{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: remote}, namespace)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading namespace %q: %w", remote, err)
	}
	if !OwnedBy(namespace, nm, nm.Labels[liqocorev1beta1.OriginIDLabel]) ||
		namespace.Annotations[offloadingv1beta1.OriginalNameAnnotation] != local {
		return true, nil
	}
	if !namespace.DeletionTimestamp.IsZero() {
		return false, nil
	}
	err = r.Client.Delete(ctx, namespace, client.Preconditions{UID: &namespace.UID})
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("deleting namespace %q: %w", remote, err)
	}
	return false, nil
}
