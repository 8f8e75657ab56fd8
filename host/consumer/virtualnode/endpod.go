package virtualnode

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/host/forge/local"
)

// EndPod removes a pod that no virtual kubelet ends. It gives the pod a terminal phase before, as a virtual kubelet does.
func EndPod(ctx context.Context, c client.Client, pod *corev1.Pod, now time.Time) error {
	before := pod.DeepCopy()
	pod.Status = *local.EndedPodStatus(before, now)
	if !equality.Semantic.DeepEqual(before.Status, pod.Status) {
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := c.Status().Patch(ctx, pod, patch); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("writing the last status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	if err := c.Delete(ctx, pod, client.GracePeriodSeconds(0), uidPrecondition(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}
