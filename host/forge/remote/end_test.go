package remote_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

func TestTheShadowPodThatSaysHowAPodEnds(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: "shop-rome", UID: "remote-1",
			Labels: map[string]string{
				"app": "web", offloadingv1beta1.OriginLabel: "rome", offloadingv1beta1.DestinationLabel: "milan",
				offloadingv1beta1.NodeNameLabel: "milan-node", offloadingv1beta1.ManagedByLabel: offloadingv1beta1.ManagedByShadowPod,
			},
			Annotations: map[string]string{"note": "x", remote.LocalPodUIDAnnotation: "local-1", offloadingv1beta1.SupportsAnnotation: "x"},
		},
	}
	before := pod.DeepCopy()
	shadow := remote.EndingShadowPod(pod, 5)
	assert.Equal(t, before, pod)
	assert.Equal(t, metav1.ObjectMeta{
		Name: "web", Namespace: "shop-rome",
		Labels: map[string]string{
			offloadingv1beta1.OriginLabel: "rome", offloadingv1beta1.DestinationLabel: "milan", offloadingv1beta1.NodeNameLabel: "milan-node",
		},
		Annotations: map[string]string{remote.LocalPodUIDAnnotation: "local-1", offloadingv1beta1.DeletionGracePeriodAnnotation: "5"},
	}, shadow.ObjectMeta, "whose it is, and what it says; a service selects no pod by it")
	assert.NotNil(t, shadow.Spec.Pod.Containers, "the API server wants a list")
	assert.Empty(t, shadow.Spec.Pod.Containers)
}
