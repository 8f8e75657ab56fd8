package shadowpod

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/podupdate"
)

// syncGates writes the conditions of readiness gates that the consumer has set to the status of
// the pod. Other conditions are not changed. A condition that another writer changes is
// written again with the next change of the ShadowPod or of the pod's metadata. The result is how
// soon a refused patch is sent again; 0 if none was.
func (r *Reconciler) syncGates(ctx context.Context, shadow *offloadingv1beta1.ShadowPod, pod *corev1.Pod) (time.Duration, error) {
	missing := missingGates(shadow, pod)
	if len(missing) == 0 {
		return 0, nil
	}
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID}, "status": map[string]any{"conditions": missing},
	})
	if err != nil {
		return 0, fmt.Errorf("encoding the conditions of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	// A strategic merge patch keeps the conditions of other types.
	err = r.Client.Status().Patch(ctx, pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, data), client.FieldOwner(FieldManager))
	if refusal := refusalMessage(err); refusal != "" {
		r.Events.Eventf(shadow, pod, corev1.EventTypeWarning, reasonFailedUpdatePod, actionUpdatePod, "Readiness gates not written: %s", refusal)
		return pauseAfter(err), nil
	}
	if client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("writing the readiness gates of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return 0, nil
}

// missingGates returns the conditions in the ShadowPod's annotation that the pod's readiness gates
// name and its status does not have.
func missingGates(shadow *offloadingv1beta1.ShadowPod, pod *corev1.Pod) []corev1.PodCondition {
	var missing []corev1.PodCondition
	sent := podupdate.DecodeGates(shadow.Annotations[podupdate.GatesAnnotation])
	for _, condition := range podupdate.Gates(pod.Spec.ReadinessGates, sent) {
		current := podupdate.FindCondition(pod.Status.Conditions, condition.Type)
		if current == nil || !podupdate.EqualGate(current, &condition) {
			missing = append(missing, condition)
		}
	}
	return missing
}
