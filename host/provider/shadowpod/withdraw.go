package shadowpod

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// unseenRetry is how soon a pod is looked for again of which the cache knows nothing: it
// has no events here, because it is too new or has lost its label.
const unseenRetry = 2 * time.Second

// collectorLead is how long the garbage collector has to end the pod of a ShadowPod that
// is gone. It mostly begins within milliseconds, and who is second asks twice for nothing;
// but it hears of new kinds every half minute only, and may be slow when many pods go.
const collectorLead = 2 * time.Second

// end deletes the pod of a ShadowPod that ends, and lets the ShadowPod go once there is
// none. The pod's deletion event brings us back.
func (r *Reconciler) end(ctx context.Context, shadow *offloadingv1beta1.ShadowPod) (ctrl.Result, error) {
	pod, err := r.endingPod(ctx, r.Client, shadow)
	if err != nil {
		return ctrl.Result{}, err
	}
	todo, result := decideEnd(shadow, pod), ctrl.Result{}
	if todo.release {
		// Of the cache that is no proof: we may have made the pod a moment ago.
		if pod, err = r.endingPod(ctx, r.APIReader, shadow); err != nil {
			return ctrl.Result{}, err
		}
		if pod != nil {
			todo, result.RequeueAfter = decideEnd(shadow, pod), unseenRetry
		}
	}
	if pod != nil && Owns(shadow, pod) {
		restored, err := r.restoreOwnership(ctx, shadow, pod)
		if err != nil {
			return ctrl.Result{}, err
		}
		result.RequeueAfter = soonest(result.RequeueAfter, restored.RequeueAfter)
	}
	switch {
	case todo.deletePod:
		err = r.deletePod(ctx, pod, todo.period)
		if err != nil {
			r.Events.Eventf(shadow, pod, corev1.EventTypeWarning, reasonFailedDeletePod, actionDeletePod, "Pod not deleted: %v", err)
		}
	case todo.release:
		err = r.release(ctx, shadow)
	}
	switch {
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: conflictRetry}, nil
	case err != nil:
		return ctrl.Result{}, err
	}
	return result, nil
}

// endingPod returns the pod that a ShadowPod ends, nil when there is none: its own, or that
// of an earlier ShadowPod for the same local pod.
func (r *Reconciler) endingPod(ctx context.Context, reader client.Reader, shadow *offloadingv1beta1.ShadowPod) (*corev1.Pod, error) {
	key, pod := client.ObjectKeyFromObject(shadow), &corev1.Pod{}
	err := reader.Get(ctx, key, pod)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading pod %s: %w", key, err)
	case !Owns(shadow, pod) && !endsEarlier(shadow, pod):
		return nil, nil
	}
	return pod, nil
}

// release takes the garbage collector's finalizer off a ShadowPod whose pod is gone. The
// collector would do it as well, half a minute later if the CRDs are new to it, and
// at its own pace when many go at once.
func (r *Reconciler) release(ctx context.Context, shadow *offloadingv1beta1.ShadowPod) error {
	left := slices.DeleteFunc(slices.Clone(shadow.Finalizers), func(f string) bool { return f == metav1.FinalizerDeleteDependents })
	err := r.patch(ctx, shadow, map[string]any{"metadata": map[string]any{
		"uid": shadow.UID, "resourceVersion": shadow.ResourceVersion, "finalizers": left,
	}})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("letting go of ShadowPod %s/%s: %w", shadow.Namespace, shadow.Name, err)
	}
	return nil
}

// collect deletes the pod of a ShadowPod that is gone, if the garbage collector does not.
func (r *Reconciler) collect(ctx context.Context, key types.NamespacedName) (ctrl.Result, error) {
	pod := &corev1.Pod{}
	err := r.Client.Get(ctx, key, pod)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return ctrl.Result{}, fmt.Errorf("reading pod %s: %w", key, err)
	case err != nil || ownerOf(pod) == nil || !pod.DeletionTimestamp.IsZero():
		// There is none, it is unmanaged, or it is being deleted.
		r.orphans.Delete(key)
		r.attempts.Delete(key)
		return ctrl.Result{}, nil
	}
	if left := r.leadOf(key, pod); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	if err := r.deleteOrphan(ctx, pod); err != nil {
		return ctrl.Result{}, err
	}
	r.orphans.Delete(key)
	return ctrl.Result{}, nil
}

// leftOver is a pod whose ShadowPod is not there, and when that was seen first.
type leftOver struct {
	pod   types.UID
	since time.Time
}

// leadOf returns how much longer a pod is the garbage collector's to end.
func (r *Reconciler) leadOf(key types.NamespacedName, pod *corev1.Pod) time.Duration {
	now := r.Clock.Now()
	found, known := r.orphans.LoadOrStore(key, leftOver{pod: pod.UID, since: now})
	seen, _ := found.(leftOver)
	if known && seen.pod != pod.UID {
		seen = leftOver{pod: pod.UID, since: now}
		r.orphans.Store(key, seen)
	}
	return seen.since.Add(collectorLead).Sub(now)
}

// deleteOrphan deletes a pod with an [ownerOf] whose ShadowPod is gone. That is asked of
// the API server: a cache can be older than the pod.
func (r *Reconciler) deleteOrphan(ctx context.Context, pod *corev1.Pod) error {
	if !pod.DeletionTimestamp.IsZero() {
		return nil
	}
	owner, key := ownerOf(pod), client.ObjectKeyFromObject(pod)
	shadow := &offloadingv1beta1.ShadowPod{}
	err := r.APIReader.Get(ctx, key, shadow)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("asking whether ShadowPod %s is gone: %w", key, err)
	case err == nil && shadow.UID == owner.UID:
		log.FromContext(ctx).V(1).Info("The ShadowPod is newer than the cache, keeping its pod")
		return nil
	}
	log.FromContext(ctx).Info("Deleting the pod of a ShadowPod that is gone", "pod", key)
	return r.deletePod(ctx, pod, nil)
}

// deletePod deletes this very pod. One that is gone or replaced has events that say so.
func (r *Reconciler) deletePod(ctx context.Context, pod *corev1.Pod, period *int64) error {
	options := []client.DeleteOption{client.Preconditions{UID: &pod.UID}}
	if period != nil {
		options = append(options, client.GracePeriodSeconds(*period))
	}
	err := r.Client.Delete(ctx, pod, options...)
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("deleting pod %s/%s: %w", pod.Namespace, pod.Name, err)
}
