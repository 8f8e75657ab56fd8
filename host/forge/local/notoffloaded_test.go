package local_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/longshore-dev/longshore/host/forge/local"
)

func TestNotOffloadedStatus(t *testing.T) {
	controls := true
	owned := func(kind string, controller *bool) []metav1.OwnerReference {
		return []metav1.OwnerReference{{Kind: kind, Name: "agent", Controller: controller}}
	}
	const anyPod = "Namespace monitoring is not offloaded to cluster milan. Create a NamespaceOffloading in it, read the status of the one that exists, " +
		"or keep its pods off virtual nodes."
	for name, tc := range map[string]struct {
		owners          []metav1.OwnerReference
		reason, message string
	}{
		"a pod without owner":             {nil, "OffloadingBackOff", anyPod},
		"a pod of a ReplicaSet":           {owned("ReplicaSet", &controls), "OffloadingBackOff", anyPod},
		"a DaemonSet that owns, no more":  {owned("DaemonSet", nil), "OffloadingBackOff", anyPod},
		"a pod that a DaemonSet controls": {owned("DaemonSet", &controls), "DaemonSetNotOffloaded", "DaemonSet agent tolerates the taints of virtual node milan-1, and namespace monitoring is not offloaded to cluster milan. To keep the DaemonSet off virtual nodes, add a required node affinity to its template: key liqo.io/type, operator NotIn, value virtual-node."},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "monitoring", Name: "agent-x", OwnerReferences: tc.owners},
				Spec:       corev1.PodSpec{NodeName: "milan-1"}, Status: corev1.PodStatus{Phase: corev1.PodPending},
			}
			status := local.NotOffloadedStatus(pod, "milan", time.Unix(0, 0))
			assert.Equal(t, &corev1.PodStatus{Phase: corev1.PodPending, Reason: tc.reason, Message: tc.message}, status)
			pod.Status = *status
			assert.Equal(t, status, local.NotOffloadedStatus(pod, "milan", time.Unix(100, 0)), "the status is written once")
		})
	}
}
