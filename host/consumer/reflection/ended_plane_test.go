package reflection_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/pod"
)

// ends is a provider that marks each pod of a ReplicaSet as Failed as soon as it exists. The ReplicaSet replaces
// them at once, and the fifth of its pods that waits says why.
func (r *rig) ends(t *testing.T) {
	t.Helper()
	labels := client.MatchingLabels{"app": "ended"}
	replicas := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: local, Name: "ended"},
		Spec: appsv1.ReplicaSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				NodeName: nodeName, TerminationGracePeriodSeconds: new(int64), Containers: []corev1.Container{{Name: "web", Image: "web:1"}},
			}},
		},
	}
	require.NoError(t, r.rome.Create(t.Context(), replicas))
	pods := &corev1.PodList{}
	waits := func(t planetest.T) bool {
		there := &corev1.PodList{}
		require.NoError(t, r.milan.List(t.Context(), there, client.InNamespace(remoteNamespace), labels))
		for i := range there.Items {
			failed := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"phase":"Failed","reason":"Evicted"}}`))
			if there.Items[i].Status.Phase != corev1.PodFailed {
				require.NoError(t, client.IgnoreNotFound(r.milan.Status().Patch(t.Context(), &there.Items[i], failed)))
			}
		}
		require.NoError(t, r.rome.List(t.Context(), pods, client.InNamespace(local), labels))
		for i := range pods.Items {
			if pods.Items[i].Status.Reason == pod.ReasonEndedByProvider {
				return true
			}
		}
		return false
	}
	planetest.Until(t, waits, soon, tick)
	assert.Len(t, pods.Items, 6, "five have begun, and the next one waits for 8 s")

	require.NoError(t, r.rome.Delete(t.Context(), replicas, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	planetest.Until(t, func(t planetest.T) bool {
		require.NoError(t, r.rome.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(local), labels))
		require.NoError(t, r.rome.List(t.Context(), pods, client.InNamespace(local), labels))
		return len(pods.Items) == 0
	}, soon, tick)
}

// countsFailure deletes a pod that the provider has never created. Its Job has a podFailurePolicy, and keeps a
// finalizer on the pod until its phase is terminal.
func (r *rig) countsFailure(t *testing.T) {
	t.Helper()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: local, Name: "refused"},
		Spec: batchv1.JobSpec{
			PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
				Action: batchv1.PodFailurePolicyActionFailJob, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{137}},
			}}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{refused: "yes"}}, Spec: corev1.PodSpec{
				NodeName: nodeName, RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: new(int64),
				InitContainers: []corev1.Container{{Name: "init", Image: "init:1"}}, Containers: []corev1.Container{{Name: "batch", Image: "batch:1"}},
			}},
		},
	}
	require.NoError(t, r.rome.Create(t.Context(), job))
	planetest.Until(t, func(t planetest.T) bool {
		shadows := &offloadingv1beta1.ShadowPodList{}
		require.NoError(t, r.milan.List(t.Context(), shadows, client.InNamespace(remoteNamespace), client.HasLabels{refused}))
		return len(shadows.Items) == 1
	}, soon, tick)
	require.NoError(t, r.rome.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(local), client.HasLabels{refused}))
	planetest.Until(t, func(t planetest.T) bool {
		require.NoError(t, r.rome.Get(t.Context(), client.ObjectKeyFromObject(job), job))
		return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
			return c.Type == batchv1.JobFailed && c.Reason == batchv1.JobReasonPodFailurePolicy
		})
	}, soon, tick)
	planetest.Until(t, func(t planetest.T) bool {
		pods := &corev1.PodList{}
		require.NoError(t, r.rome.List(t.Context(), pods, client.InNamespace(local), client.HasLabels{refused}))
		return len(pods.Items) == 0
	}, soon, tick)
}
