package shadowpod

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// end deletes the pod of a ShadowPod that ends, and lets the ShadowPod go once there is
// none. The pod's deletion event brings us back.
func (r *Reconciler) end(ctx context.Context, shadow *offloadingv1beta1.ShadowPod) (ctrl.Result, error) {
	key := client.ObjectKeyFromObject(shadow)
	pod := &corev1.Pod{}
	err := r.Client.Get(ctx, key, pod)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return ctrl.Result{}, fmt.Errorf("reading pod %s: %w", key, err)
	case err != nil || !Owns(shadow, pod):
		pod = nil
	}
	todo := decideEnd(shadow, pod)
	if todo.deletePod {
		if err := r.deletePod(ctx, pod, todo.period); err != nil {
			r.Events.Eventf(shadow, pod, corev1.EventTypeWarning, reasonFailedDeletePod, actionDeletePod, "Pod not deleted: %v", err)
			return ctrl.Result{}, err
		}
	}
	if !todo.release {
		return ctrl.Result{}, nil
	}
	err = r.release(ctx, shadow)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: conflictRetry}, nil
	}
	return ctrl.Result{}, client.IgnoreNotFound(err)
}

// release takes the garbage collector's finalizer off a ShadowPod whose pod is gone. The
// collector would do it as well, half a minute later if the CRDs are new to it, and
// at its own pace when many go at once.
func (r *Reconciler) release(ctx context.Context, shadow *offloadingv1beta1.ShadowPod) error {
	left := slices.DeleteFunc(slices.Clone(shadow.Finalizers), func(f string) bool { return f == metav1.FinalizerDeleteDependents })
	err := r.patch(ctx, shadow, map[string]any{"metadata": map[string]any{
		"uid": shadow.UID, "resourceVersion": shadow.ResourceVersion, "finalizers": left,
	}})
	if err != nil {
		return fmt.Errorf("letting go of ShadowPod %s/%s: %w", shadow.Namespace, shadow.Name, err)
	}
	return nil
}

// collect deletes the pod of a ShadowPod that is gone.
func (r *Reconciler) collect(ctx context.Context, key types.NamespacedName) error {
	pod := &corev1.Pod{}
	err := r.Client.Get(ctx, key, pod)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading pod %s: %w", key, err)
	case ownerOf(pod) == nil:
		return nil // a stranger's
	}
	return r.deleteOrphan(ctx, pod)
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
