package access

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/virtualnode"
	"github.com/longshore-dev/longshore/host/forge/local"
	"github.com/longshore-dev/longshore/host/kit/podend"
)

// Events on pods whose namespace is not offloaded.
const (
	reasonDisabled = "ReflectionDisabled"
	actionReflect  = "Reflect"
)

// endPods rejects and deletes pods of a virtual node in a namespace that its virtual kubelet
// cannot access.
func (r *Reconciler) endPods(ctx context.Context, vn *offloadingv1beta1.VirtualNode, pods []*metav1.PartialObjectMetadata) error {
	var errs []error
	for _, pod := range pods {
		if pod.DeletionTimestamp != nil {
			errs = append(errs, r.endPod(ctx, pod))
		} else {
			errs = append(errs, r.reject(ctx, vn, pod))
		}
	}
	return errors.Join(errs...)
}

// endPod ends a terminating pod, which has no running containers.
func (r *Reconciler) endPod(ctx context.Context, cached *metav1.PartialObjectMetadata) error {
	pod, err := r.read(ctx, cached)
	if err != nil || pod == nil || pod.DeletionTimestamp == nil {
		return err
	}
	return virtualnode.EndPod(ctx, r.Client, pod, r.Clock.Now())
}

// read returns a pod whose metadata are cached, nil if it is gone.
func (r *Reconciler) read(ctx context.Context, cached *metav1.PartialObjectMetadata) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(cached), pod)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading pod %s/%s: %w", cached.Namespace, cached.Name, err)
	}
	if err != nil || pod.UID != cached.UID {
		return nil, nil
	}
	return pod, nil
}

// reject reports in a pod's status that its namespace is not offloaded. The event says the same, and is lost if the
// manager stops after the status is written: nothing is done again for it.
func (r *Reconciler) reject(ctx context.Context, vn *offloadingv1beta1.VirtualNode, cached *metav1.PartialObjectMetadata) error {
	pod, err := r.read(ctx, cached)
	if err != nil || pod == nil || pod.DeletionTimestamp != nil {
		return err // Without an error, the cache is stale.
	}
	before := pod.DeepCopy()
	if !setRejectedStatus(pod, string(vn.Spec.ClusterID), r.Clock.Now()) || equality.Semantic.DeepEqual(before.Status, pod.Status) {
		return nil
	}
	if err := r.Client.Status().Patch(ctx, pod, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	r.Events.Eventf(pod, nil, corev1.EventTypeWarning, reasonDisabled, actionReflect, "%s", pod.Status.Message)
	return nil
}

// setRejectedStatus sets the status of a pod whose namespace is not offloaded. It returns false
// for a finished pod.
func setRejectedStatus(pod *corev1.Pod, provider string, now time.Time) bool {
	switch {
	case podend.IsTerminal(pod.Status.Phase):
		return false
	case pod.Status.Phase == corev1.PodPending && len(pod.Status.ContainerStatuses) == 0:
		pod.Status = *local.NotOffloadedStatus(pod, provider, now)
	default:
		message := fmt.Sprintf("Namespace %s is no longer offloaded to cluster %s", pod.Namespace, provider)
		pod.Status = *local.RejectedPodStatus(&pod.Status, corev1.PodFailed, offloadingv1beta1.OffloadingAbortedReason, message, now)
	}
	return true
}
