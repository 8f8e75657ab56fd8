package shadowpod

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/provider"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

func TestFinishedShadowPodsAreCachedWithoutTheirSpecs(t *testing.T) {
	for phase, isFinished := range map[corev1.PodPhase]bool{
		"": false, corev1.PodUnknown: false, corev1.PodRunning: false, corev1.PodSucceeded: true, corev1.PodFailed: true,
	} {
		t.Run(string(phase), func(t *testing.T) {
			shadow := &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{
				Name: "web", Namespace: "shop-rome", UID: "1", Labels: map[string]string{offloadingv1beta1.OriginLabel: "rome", "app": "web"},
				Annotations:   map[string]string{remote.LocalPodUIDAnnotation: "2", "note": "x"},
				ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}},
			}}
			shadow.Status.Phase, shadow.Spec.Pod.Containers = phase, []corev1.Container{{Name: "web"}}
			before := shadow.DeepCopy()
			trimmed, err := Trim(shadow)
			require.NoError(t, err)
			assert.Same(t, shadow, trimmed)
			assert.Empty(t, shadow.ManagedFields)
			assert.Equal(t, ownershipOf(provider.Pod(before)), ownershipOf(provider.Pod(shadow)), "the ownership of its pod is kept")
			assert.Equal(t, isFinished, len(shadow.Spec.Pod.Containers) == 0)
			assert.Equal(t, isFinished, shadow.Annotations["note"] == "")
		})
	}
}
