// Package shadowpod is Pod flow, stage 6: on the provider, it turns each ShadowPod into a pod
// and reports how the pod ended.
//
// Labels, annotations, and what Kubernetes lets change in the spec of a running pod follow the
// ShadowPod. A pod that vanishes while
// its ShadowPod is not terminal is created again, so the workload survives an eviction or a
// drained node without its consumer; at once, or after a pause that doubles while its pods do not
// last. The garbage collector deletes the pod of a deleted
// ShadowPod.
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
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/provider"
	"github.com/longshore-dev/longshore/host/kit/fair"
	"github.com/longshore-dev/longshore/host/kit/podend"
	"github.com/longshore-dev/longshore/host/kit/quantity"
	"github.com/longshore-dev/longshore/host/kit/reported"
	"github.com/longshore-dev/longshore/host/provider/metadata"
	"github.com/longshore-dev/longshore/host/provider/quota"
)

// FieldManager is the field manager of this controller's writes.
const FieldManager = "shadow-pod"

const (
	// creationRetry is how soon the creation of a pod is tried again when its obstacle, an
	// unmanaged pod of the same name or the security level, causes no event when it goes, and a
	// change of a pod after an internal error of the API server.
	creationRetry = 30 * time.Second
	// conflictRetry is how soon a write that failed with a conflict is tried again.
	conflictRetry = time.Second
)

var (
	errNotControlled = errors.New("pod exists and is not controlled by the ShadowPod")
	// errStalePod: the garbage collector deletes the pod, and its end causes an event.
	errStalePod = errors.New("pod of an earlier ShadowPod of this name still exists")
)

// pausedError is the error for a pod that is created again after a pause.
type pausedError struct{ left time.Duration }

// Error implements error.
func (e *pausedError) Error() string {
	return "its last pods did not last: created again after a pause"
}

// Reconciler turns ShadowPods into pods.
type Reconciler struct {
	// Client reads from the manager's cache, which holds pods with the managed-by label only,
	// as metadata.Trim leaves them.
	Client client.Client
	// APIReader reads pods that the cache does not hold, those without the label, and
	// ShadowPods before their pods are created.
	APIReader client.Reader
	// SecurityLevel is the Pod Security level of pods in namespaces without a label for it;
	// empty is [provider.DefaultSecurityLevel].
	SecurityLevel api.Level
	// Events records on the ShadowPod.
	Events events.EventRecorder
	// Clock is the time source.
	Clock clock.PassiveClock

	// attempts holds the last change of each pod's metadata, by name.
	attempts sync.Map
	// creations holds the last creation of each ShadowPod's pod, by name. It begins anew with the
	// process.
	creations sync.Map
}

// SetupWithManager watches ShadowPods and the pods that they own.
//
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=shadowpods,verbs=get;list;watch
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=shadowpods/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=pods/resize;pods/ephemeralcontainers;pods/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=networking.liqo.io,resources=configurations,verbs=get;list;watch
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, workers int) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("shadowpod").
		For(&offloadingv1beta1.ShadowPod{}, builder.WithPredicates(ignoreOwnStatus())).
		Owns(&corev1.Pod{}, builder.WithPredicates(podChanged())).
		WithOptions(fair.Options(mgr.GetClient(), workers)).
		Complete(reported.Reconciler(r))
}

// ignoreOwnStatus drops updates of the status, which only this controller writes.
func ignoreOwnStatus() predicate.Predicate {
	return predicate.Or[client.Object](predicate.GenerationChangedPredicate{},
		predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{})
}

// podChanged passes changes of the phase, of containers and of what they hold, of labels and of annotations,
// and deletions. A pod
// that loses the managed-by label leaves the cache, which is a deletion too.
func podChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return true },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, okBefore := e.ObjectOld.(*corev1.Pod)
			after, okAfter := e.ObjectNew.(*corev1.Pod)
			return okBefore && okAfter && (before.Status.Phase != after.Status.Phase || !quantity.Equal(before.Spec.Containers, after.Spec.Containers) ||
				!maps.Equal(before.Labels, after.Labels) || !maps.Equal(before.Annotations, after.Annotations) || holdsOther(before, after))
		},
	}
}

// holdsOther reports whether a pod holds other resources than before: its kubelet has resized it.
func holdsOther(before, after *corev1.Pod) bool {
	had, beforeErr := quota.Holds(before)
	has, afterErr := quota.Holds(after)
	return beforeErr == nil && afterErr == nil && !quantity.Equal(had, has)
}

// Reconcile creates and updates the pod of one ShadowPod.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (ctrl.Result, error) {
	shadow := &offloadingv1beta1.ShadowPod{}
	err := r.Client.Get(ctx, request.NamespacedName, shadow)
	switch {
	case apierrors.IsNotFound(err):
		r.attempts.Delete(request.NamespacedName)
		r.creations.Delete(request.NamespacedName)
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("reading ShadowPod %s: %w", request, err)
	case !shadow.DeletionTimestamp.IsZero(), podend.IsTerminal(shadow.Status.Phase):
		return r.keepOwnership(ctx, shadow)
	}
	return r.ensurePod(ctx, shadow)
}

// ensurePod creates or updates the pod, and reports its phase.
func (r *Reconciler) ensurePod(ctx context.Context, shadow *offloadingv1beta1.ShadowPod) (ctrl.Result, error) {
	pod, err := r.getOrCreatePod(ctx, shadow)
	var forbidden *forbiddenError
	var paused *pausedError
	switch {
	case errors.As(err, &paused):
		next := r.Clock.Now().Add(paused.left).UTC().Truncate(time.Second)
		return ctrl.Result{RequeueAfter: paused.left}, r.reportRefusal(ctx, shadow, nil,
			"the provider's cluster has deleted each of its last pods soon after its creation; the next one is created at "+next.Format(time.RFC3339))
	case errors.Is(err, errNotControlled), errors.Is(err, errStalePod), errors.As(err, &forbidden):
		return ctrl.Result{RequeueAfter: creationRetry}, nil
	case err != nil || pod == nil:
		return ctrl.Result{}, err
	case !pod.DeletionTimestamp.IsZero():
		result, err := r.restoreOwnership(ctx, shadow, pod)
		if err != nil || podend.ByDeletion(pod, shadow.Status.Phase) {
			// The pod was evicted. Its deletion event causes the creation of the next one.
			return result, err
		}
		return result, r.reportStatus(ctx, shadow, pod)
	}
	want := provider.Pod(shadow)
	result, err := r.sync(ctx, shadow, pod, want)
	// A pod that has ended is not created again, whatever keeps it from being changed.
	if statusErr := r.reportStatus(ctx, shadow, pod); statusErr != nil {
		return result, statusErr // The change of the pod is tried again, too.
	}
	return result, err
}

// sync applies the changes of a ShadowPod to its pod.
func (r *Reconciler) sync(ctx context.Context, shadow *offloadingv1beta1.ShadowPod, pod, want *corev1.Pod) (ctrl.Result, error) {
	retryAfter, err := r.updateSpec(ctx, shadow, pod, want)
	if err != nil {
		return ctrl.Result{}, err
	}
	result, err := r.syncMetadata(ctx, shadow, pod, want)
	if err != nil {
		return ctrl.Result{}, err
	}
	gatesRetry, err := r.syncGates(ctx, shadow, pod)
	if err != nil {
		return ctrl.Result{}, err
	}
	result.RequeueAfter = soonest(result.RequeueAfter, retryAfter, gatesRetry)
	return result, nil
}

// keepOwnership restores the ownership labels of the pod of a ShadowPod that is terminal or
// being deleted, as long as the cache holds the pod.
func (r *Reconciler) keepOwnership(ctx context.Context, shadow *offloadingv1beta1.ShadowPod) (ctrl.Result, error) {
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

// getOrCreatePod returns the ShadowPod's pod, and creates it when it is absent. The error is
// errNotControlled when an unmanaged pod has the name, errStalePod when the pod of an earlier
// ShadowPod has it, a [forbiddenError] when the security level forbids the pod, and a [pausedError]
// when its last pods did not last. Pod and
// error are nil when the namespace is terminating, and when the cached ShadowPod is stale.
func (r *Reconciler) getOrCreatePod(ctx context.Context, shadow *offloadingv1beta1.ShadowPod) (*corev1.Pod, error) {
	key := client.ObjectKeyFromObject(shadow)
	pod := &corev1.Pod{}
	err := r.Client.Get(ctx, key, pod)
	switch {
	case err == nil:
		return r.checkOwner(ctx, shadow, pod)
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("reading pod %s: %w", key, err)
	}
	next, wait := r.nextAttempt(&r.creations, key, string(shadow.UID))
	if wait > 0 {
		return nil, &pausedError{left: wait}
	}
	pod = provider.Pod(shadow)
	if err := r.translateHostAliases(ctx, shadow, pod); err != nil {
		return nil, r.refuse(ctx, shadow, err, err.Error())
	}
	if err = r.checkSecurity(ctx, pod); err == nil {
		if stale, err := r.isStale(ctx, shadow); err != nil || stale {
			return nil, err
		}
		err = r.Client.Create(ctx, pod, client.FieldOwner(FieldManager))
	}
	refusal := refusalMessage(err)
	switch {
	case err == nil:
		r.creations.Store(key, next)
		return pod, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		log.FromContext(ctx).V(1).Info("Namespace is terminating, not creating the pod")
		return nil, nil
	case apierrors.IsAlreadyExists(err), refusal != "":
		// The pod may exist without the label that the cache selects by. Admission refuses a
		// pod before the API server looks at its name.
		existing := &corev1.Pod{}
		readErr := r.APIReader.Get(ctx, key, existing)
		if readErr == nil {
			return r.checkOwner(ctx, shadow, existing)
		}
		if client.IgnoreNotFound(readErr) != nil {
			return nil, fmt.Errorf("reading the pod that has the name %s: %w", key, readErr)
		}
	}
	if refusal != "" {
		err = r.refuse(ctx, shadow, err, refusal)
	}
	return nil, fmt.Errorf("creating pod %s: %w", key, err)
}

// isStale reports whether the API server has another state of a ShadowPod than the cache, in which
// no pod is created: it is deleted, being deleted, replaced or terminal. The watch of pods may be
// ahead of the watch of ShadowPods, and then a pod that was deleted with its ShadowPod would run
// again until the garbage collector finds it. The event of the change is on its way.
func (r *Reconciler) isStale(ctx context.Context, shadow *offloadingv1beta1.ShadowPod) (bool, error) {
	current := &offloadingv1beta1.ShadowPod{}
	err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(shadow), current)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading ShadowPod %s/%s before creating its pod: %w", shadow.Namespace, shadow.Name, err)
	}
	return err != nil || current.UID != shadow.UID || !current.DeletionTimestamp.IsZero() || podend.IsTerminal(current.Status.Phase), nil
}

// checkOwner returns the pod if the ShadowPod controls it.
func (r *Reconciler) checkOwner(ctx context.Context, shadow *offloadingv1beta1.ShadowPod, pod *corev1.Pod) (*corev1.Pod, error) {
	switch {
	case Owns(shadow, pod):
		return pod, nil
	case metadata.WasCreatedFor(pod, offloadingv1beta1.ShadowPodGVK):
		return nil, errStalePod
	}
	if err := r.reportRefusal(ctx, shadow, pod, "a pod of this name exists and is not controlled by the ShadowPod"); err != nil {
		return nil, err
	}
	return nil, errNotControlled
}

// restoreOwnership restores the labels and annotations by which the consumer recognizes the
// pod. Without them the consumer concludes that the pod is gone.
func (r *Reconciler) restoreOwnership(ctx context.Context, shadow *offloadingv1beta1.ShadowPod, pod *corev1.Pod) (ctrl.Result, error) {
	want := ownershipOf(provider.Pod(shadow))
	// Other keys stay as they are.
	maps.Copy(want.Labels, withoutKeys(pod.Labels, want.Labels))
	maps.Copy(want.Annotations, withoutKeys(pod.Annotations, want.Annotations))
	return r.syncMetadata(ctx, shadow, pod, want)
}

// syncMetadata updates labels and annotations of the pod to those of want.
func (r *Reconciler) syncMetadata(ctx context.Context, shadow *offloadingv1beta1.ShadowPod, pod, want *corev1.Pod) (ctrl.Result, error) {
	changes, err := metadata.Compare(pod, want, FieldManager)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("comparing the metadata of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	if changes.IsEmpty() {
		return ctrl.Result{}, nil
	}
	content, err := json.Marshal([]any{changes.Labels, changes.Annotations})
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("encoding the metadata of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	key := client.ObjectKeyFromObject(pod)
	next, wait := r.nextAttempt(&r.attempts, key, string(pod.UID)+string(content))
	if wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	err = r.patch(ctx, pod, map[string]any{"metadata": changes.Patch(pod)})
	switch {
	case err == nil:
		r.attempts.Store(key, next)
		return ctrl.Result{}, nil
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: conflictRetry}, nil
	}
	r.Events.Eventf(pod, shadow, corev1.EventTypeWarning, reasonFailedUpdatePod, actionUpdatePod, "Pod metadata not updated: %v", err)
	if refusalMessage(err) != "" {
		err = reported.Error(err)
	}
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

// reportStatus writes to the ShadowPod what its pod requests beyond it, for the Quota, and a terminal phase.
// Other phases are not read by consumers and are written only together with the removal of a refusal,
// or with requests.
func (r *Reconciler) reportStatus(ctx context.Context, shadow *offloadingv1beta1.ShadowPod, pod *corev1.Pod) error {
	phase, refused, beyond := pod.Status.Phase, shadow.Status.Reason != "", quota.Beyond(&shadow.Spec.Pod, pod)
	isCounted := quantity.Equal(shadow.Status.Requests, beyond)
	if phase == "" || isCounted && !refused && (!podend.IsTerminal(phase) || shadow.Status.Phase == phase) {
		return nil
	}
	status := map[string]any{"phase": phase}
	if !isCounted {
		status["requests"] = replacement(shadow.Status.Requests, beyond)
	}
	if refused {
		status["reason"], status["message"] = nil, nil
	}
	err := r.patchStatus(ctx, shadow, status)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing phase %s of ShadowPod %s/%s: %w", phase, shadow.Namespace, shadow.Name, err)
	}
	return nil
}

// replacement returns what a merge patch makes of one list another: what is not in the new one is removed.
func replacement(before, after corev1.ResourceList) map[corev1.ResourceName]any {
	patch := map[corev1.ResourceName]any{}
	for name := range before {
		patch[name] = nil
	}
	for name, amount := range after {
		patch[name] = amount
	}
	return patch
}
