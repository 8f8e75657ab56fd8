// Package shadowpod: Pod flow, stage 6: on the provider, turns each ShadowPod into a
// pod and reports the pod's phase back.
//
// The pod's spec is never updated after its creation; labels and annotations are.
// A pod that vanishes while its ShadowPod is not terminal is created again, so an
// eviction or a drained node is survived without the consumer. The pod of a ShadowPod
// whose consumer asks for a grace period is deleted from here, with that period. The pod
// of a ShadowPod that is plainly deleted is the garbage collector's, and ours when that
// does not begin at once.
package shadowpod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/pod-security-admission/api"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/podend"
	"github.com/longshore-dev/longshore/host/kit/retry"
)

// FieldManager owns what this controller writes to pods (wire 7.4).
const FieldManager = "shadow-pod"

// unmanagedRetry is how soon a pod is tried again that cannot be created now: the deletion
// of an unmanaged pod of its name, or another security level, makes no event.
const unmanagedRetry = 30 * time.Second

// conflictRetry is how soon a write is tried again that was made for an older state.
const conflictRetry = time.Second

var (
	errNotControlled = errors.New("pod exists and is not controlled by the ShadowPod")
	// errStalePod: the pod of this name was created for an earlier ShadowPod, which is gone.
	errStalePod = errors.New("the pod of an earlier ShadowPod of this name still exists")
)

// DefaultPendingDelay is how long a pod may be Pending before the phase is written to
// its ShadowPod. Most pods run earlier, and a write that is overtaken at once is a
// request for nobody.
const DefaultPendingDelay = 2 * time.Second

// Reconciler turns ShadowPods into pods.
type Reconciler struct {
	// Client reads from the manager's cache, which holds pods with the managed-by
	// label only, as [TrimPod] leaves them.
	Client client.Client
	// APIReader reads what the cache does not hold, pods of the same name without the
	// label, and what must not be out of date: that a ShadowPod is gone.
	APIReader client.Reader
	// SecurityLevel is the Pod Security level of the pods, in namespaces that have no label
	// for it; empty is [DefaultSecurityLevel].
	SecurityLevel api.Level
	// Events records on the ShadowPod.
	Events events.EventRecorder
	// Clock is the time source.
	Clock clock.PassiveClock
	// PendingDelay overrides DefaultPendingDelay when positive.
	PendingDelay time.Duration

	// orphans are pods left to the garbage collector for a moment, by name.
	orphans sync.Map
	// attempts are the last changes of pods' metadata, by name.
	attempts sync.Map
}

// SetupWithManager registers watches: ShadowPods, and the pods they own.
//
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=shadowpods,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=shadowpods/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, workers int) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("shadowpod").
		For(&offloadingv1beta1.ShadowPod{}, builder.WithPredicates(ignoreOwnStatus())).
		Owns(&corev1.Pod{}, builder.WithPredicates(podChanged())).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, RateLimiter: retry.Limiter[reconcile.Request]()}).
		Complete(r)
}

// ignoreOwnStatus drops updates that change nothing but the status, which only this
// controller writes.
func ignoreOwnStatus() predicate.Predicate {
	return predicate.Or[client.Object](predicate.GenerationChangedPredicate{},
		predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{})
}

// podChanged lets through what can change the outcome: a new phase, other labels or
// annotations, a deletion. A pod that loses the managed-by label leaves the cache, which is
// a deletion here.
func podChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return true },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, okBefore := e.ObjectOld.(*corev1.Pod)
			after, okAfter := e.ObjectNew.(*corev1.Pod)
			return okBefore && okAfter && (before.Status.Phase != after.Status.Phase ||
				!maps.Equal(before.Labels, after.Labels) || !maps.Equal(before.Annotations, after.Annotations))
		},
	}
}

// Reconcile brings pod and phase in line with one ShadowPod, or with its absence.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (ctrl.Result, error) {
	shadow := &offloadingv1beta1.ShadowPod{}
	err := r.Client.Get(ctx, request.NamespacedName, shadow)
	switch {
	case apierrors.IsNotFound(err):
		return r.collect(ctx, request.NamespacedName)
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("reading ShadowPod %s: %w", request, err)
	case Ends(shadow):
		return r.end(ctx, shadow)
	case Terminal(shadow):
		return r.keepFinished(ctx, shadow)
	}
	if _, err := GracePeriod(shadow); err != nil {
		r.Events.Eventf(shadow, nil, corev1.EventTypeWarning, reasonFailedDeletePod, actionDeletePod, "Pod not deleted: %v", err)
	}
	return r.run(ctx, shadow)
}

// run keeps the pod of a ShadowPod that lives.
func (r *Reconciler) run(ctx context.Context, shadow *offloadingv1beta1.ShadowPod) (ctrl.Result, error) {
	pod, err := r.pod(ctx, shadow)
	var forbidden *forbiddenError
	switch {
	case errors.Is(err, errNotControlled), errors.Is(err, errStalePod), errors.As(err, &forbidden):
		return ctrl.Result{RequeueAfter: unmanagedRetry}, nil
	case err != nil || pod == nil:
		return ctrl.Result{}, err
	case !pod.DeletionTimestamp.IsZero():
		result, err := r.restoreOwnership(ctx, shadow, pod)
		if err != nil || podend.ByDeletion(pod, shadow.Status.Phase) {
			// An eviction or a drained node is not the end of the ShadowPod: a terminal phase
			// would be. The pod's deletion event brings us back to create the next one.
			return result, err
		}
		return result, r.reportPhase(ctx, shadow, pod.Status.Phase)
	}
	result, err := r.syncMetadata(ctx, shadow, pod, ForgePod(shadow))
	if err != nil {
		return ctrl.Result{}, err
	}
	if wait := r.pendingFor(shadow, pod); wait > 0 {
		result.RequeueAfter = soonest(result.RequeueAfter, wait)
		return result, nil
	}
	return result, r.reportPhase(ctx, shadow, pod.Status.Phase)
}

// soonest returns the shorter of two pauses; zero is none.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// keepFinished restores the ownership of the pod of a ShadowPod with a terminal phase, as
// long as the cache holds the pod.
func (r *Reconciler) keepFinished(ctx context.Context, shadow *offloadingv1beta1.ShadowPod) (ctrl.Result, error) {
	key, pod := client.ObjectKeyFromObject(shadow), &corev1.Pod{}
	err := r.Client.Get(ctx, key, pod)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return ctrl.Result{}, fmt.Errorf("reading pod %s: %w", key, err)
	case err != nil || !Owns(shadow, pod):
		return ctrl.Result{}, nil
	}
	return r.restoreOwnership(ctx, shadow, pod)
}

// pod returns the ShadowPod's pod, creating it when it is absent. The error is
// errNotControlled when another pod holds the name, errStalePod when that of an earlier
// ShadowPod does, and a [forbiddenError] when the provider's security level forbids the
// pod. Pod and error are nil when the namespace is terminating.
func (r *Reconciler) pod(ctx context.Context, shadow *offloadingv1beta1.ShadowPod) (*corev1.Pod, error) {
	key := client.ObjectKeyFromObject(shadow)
	pod := &corev1.Pod{}
	err := r.Client.Get(ctx, key, pod)
	switch {
	case err == nil:
		return r.owned(ctx, shadow, pod)
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("reading pod %s: %w", key, err)
	}
	pod = ForgePod(shadow)
	if err = r.checkSecurity(ctx, pod); err == nil {
		err = r.Client.Create(ctx, pod, client.FieldOwner(FieldManager))
	}
	refused := refusal(err)
	switch {
	case err == nil:
		return pod, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		log.FromContext(ctx).V(1).Info("Namespace is terminating, not creating the pod")
		return nil, nil
	case apierrors.IsAlreadyExists(err), refused != "":
		// The pod may exist without the label by which the cache selects. Admission refuses
		// such a pod before the API server looks at its name.
		existing := &corev1.Pod{}
		readErr := r.APIReader.Get(ctx, key, existing)
		if readErr == nil {
			return r.owned(ctx, shadow, existing)
		}
		if client.IgnoreNotFound(readErr) != nil {
			return nil, fmt.Errorf("reading the pod that holds the name %s: %w", key, readErr)
		}
	}
	if refused != "" {
		err = errors.Join(err, r.refuse(ctx, shadow, nil, refused))
	}
	return nil, fmt.Errorf("creating pod %s: %w", key, err)
}

func (r *Reconciler) owned(ctx context.Context, shadow *offloadingv1beta1.ShadowPod, pod *corev1.Pod) (*corev1.Pod, error) {
	switch {
	case Owns(shadow, pod):
		return pod, nil
	case ownerOf(pod) != nil:
		if err := r.deleteOrphan(ctx, pod); err != nil {
			return nil, err
		}
		return nil, errStalePod
	}
	if err := r.refuse(ctx, shadow, pod, "another pod of this name exists and does not belong to this ShadowPod"); err != nil {
		return nil, err
	}
	return nil, errNotControlled
}

// restoreOwnership restores the labels and annotations by which the consumer recognizes a
// pod that is ending or has ended. The consumer takes a pod that it cannot find for gone.
func (r *Reconciler) restoreOwnership(ctx context.Context, shadow *offloadingv1beta1.ShadowPod, pod *corev1.Pod) (ctrl.Result, error) {
	want := ownershipOf(ForgePod(shadow))
	// Keys beyond these stay as they are.
	maps.Copy(want.Labels, others(pod.Labels, want.Labels))
	maps.Copy(want.Annotations, others(pod.Annotations, want.Annotations))
	return r.syncMetadata(ctx, shadow, pod, want)
}

// syncMetadata brings labels and annotations of the pod in line with the wanted ones. The
// result says when to try again.
func (r *Reconciler) syncMetadata(ctx context.Context, shadow *offloadingv1beta1.ShadowPod, pod, want *corev1.Pod) (ctrl.Result, error) {
	changes, err := compare(pod, want)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("comparing the metadata of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	if changes.empty() {
		return ctrl.Result{}, nil
	}
	meta := map[string]any{}
	if len(changes.labels) > 0 {
		meta["labels"] = changes.labels
	}
	if len(changes.annotations) > 0 {
		meta["annotations"] = changes.annotations
	}
	content, err := json.Marshal(meta)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("encoding the metadata of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	if pause := r.pauseBefore(client.ObjectKeyFromObject(pod), pod.UID, content); pause > 0 {
		return ctrl.Result{RequeueAfter: pause}, nil
	}
	meta["uid"] = pod.UID
	if changes.removes {
		// Another writer may have taken the key over since.
		meta["resourceVersion"] = pod.ResourceVersion
	}
	err = r.patch(ctx, pod, map[string]any{"metadata": meta})
	switch {
	case err == nil:
		return ctrl.Result{}, nil
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: conflictRetry}, nil
	}
	r.Events.Eventf(shadow, pod, corev1.EventTypeWarning, reasonFailedUpdatePod, actionUpdatePod, "Pod metadata not updated: %v", err)
	return ctrl.Result{}, fmt.Errorf("updating the metadata of pod %s/%s: %w", pod.Namespace, pod.Name, err)
}

// patch sends a merge patch of the object's own fields.
func (r *Reconciler) patch(ctx context.Context, object client.Object, body map[string]any) error {
	patch, err := mergePatch(body)
	if err != nil {
		return err
	}
	if err := r.Client.Patch(ctx, object, patch, client.FieldOwner(FieldManager)); err != nil {
		return fmt.Errorf("sending a patch: %w", err)
	}
	return nil
}

func mergePatch(body map[string]any) (client.Patch, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encoding a patch: %w", err)
	}
	return client.RawPatch(types.MergePatchType, data), nil
}

// pendingFor returns how long the phase of a young Pending pod need not be written yet.
func (r *Reconciler) pendingFor(shadow *offloadingv1beta1.ShadowPod, pod *corev1.Pod) time.Duration {
	if pod.Status.Phase != corev1.PodPending || shadow.Status.Phase == corev1.PodPending {
		return 0
	}
	delay := r.PendingDelay
	if delay <= 0 {
		delay = DefaultPendingDelay
	}
	return pod.CreationTimestamp.Add(delay).Sub(r.Clock.Now())
}

// reportPhase writes the phase of the pod, whose existence ends what was said of a refusal.
func (r *Reconciler) reportPhase(ctx context.Context, shadow *offloadingv1beta1.ShadowPod, phase corev1.PodPhase) error {
	refused := shadow.Status.Reason != ""
	if phase == "" || shadow.Status.Phase == phase && !refused {
		return nil
	}
	status := map[string]any{"phase": phase}
	if refused {
		status["reason"], status["message"] = nil, nil
	}
	err := r.patchStatus(ctx, shadow, status)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing phase %s of ShadowPod %s/%s: %w", phase, shadow.Namespace, shadow.Name, err)
	}
	return nil
}
