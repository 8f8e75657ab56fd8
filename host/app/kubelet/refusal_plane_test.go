package kubelet_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	reflectionpod "github.com/longshore-dev/longshore/host/consumer/reflection/pod"
)

// testQuotaReported lets two quotas of the provider reject a pod, one after the other. The pod's
// status and an event name each of them.
func (r *rig) testQuotaReported(t *testing.T) {
	first := r.createFullQuota(t, "first")
	pod := podOn(nodeName, "refused")
	r.create(r.rome, pod)
	r.awaitReason(t, pod, "exceeded quota: first")
	assert.Equal(t, corev1.PodPending, pod.Status.Phase)
	assert.Equal(t, "true", pod.Labels[offloadingv1beta1.LocalPodLabel], "the ShadowPod exists")
	assert.Contains(t, pod.Status.Message, "(FailedCreatePod)")

	second := r.createFullQuota(t, "second")
	require.NoError(t, r.milan.Delete(t.Context(), first))
	r.awaitReason(t, pod, "exceeded quota: second")
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		events := &corev1.EventList{}
		require.NoError(c, r.rome.List(t.Context(), events, client.InNamespace(pod.Namespace)))
		messages := ""
		for i := range events.Items {
			if event := &events.Items[i]; event.InvolvedObject.UID == pod.UID && event.Reason == reflectionpod.ReasonRefused {
				messages += event.Message + "\n"
			}
		}
		assert.Contains(c, messages, "exceeded quota: first", "each cause has an event")
		assert.Contains(c, messages, "exceeded quota: second")
	}, soon, tick)

	require.NoError(t, r.milan.Delete(t.Context(), second))
	planetest.Until(t, func(t planetest.T) bool {
		require.NoError(t, r.rome.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
		return pod.Status.Phase == corev1.PodRunning
	}, soon, tick, "the pod is retried, although the deletion of a quota is not watched")
	assert.Empty(t, pod.Status.Reason)
	assert.Empty(t, pod.Status.Message)
	shadow := &offloadingv1beta1.ShadowPod{}
	planetest.Until(t, func(t planetest.T) bool {
		require.NoError(t, r.milan.Get(t.Context(), client.ObjectKey{Namespace: "shop-rome", Name: pod.Name}, shadow))
		return shadow.Status.Reason == "" && shadow.Status.Message == ""
	}, soon, tick, "the refusal is removed from the ShadowPod")
}

// createFullQuota creates a quota that rejects all pods in the remote namespace, and waits until
// the API server enforces it.
func (r *rig) createFullQuota(t *testing.T, name string) *corev1.ResourceQuota {
	t.Helper()
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: name},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
	}
	r.create(r.milan, quota)
	require.Eventually(t, func() bool {
		err := r.milan.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", GenerateName: "probe-"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "probe", Image: "example.com/probe:1"}}},
		}, client.DryRunAll)
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota: "+name)
	}, soon, tick, "the quota is enforced")
	return quota
}

// awaitReason waits until the status of the local pod contains the cause.
func (r *rig) awaitReason(t *testing.T, pod *corev1.Pod, cause string) {
	t.Helper()
	planetest.Until(t, func(t planetest.T) bool {
		require.NoError(t, r.rome.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
		return pod.Status.Reason == reflectionpod.ReasonRefused && strings.Contains(pod.Status.Message, cause)
	}, soon, tick, "the pod's message contains %q", cause)
}
