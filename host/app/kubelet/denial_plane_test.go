package kubelet_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	reflectionpod "github.com/longshore-dev/longshore/host/consumer/reflection/pod"
	"github.com/longshore-dev/longshore/host/planner"
)

// denyShadowPods makes the provider refuse ShadowPods, and returns what ends that.
func (r *rig) denyShadowPods(t *testing.T, message string) (allow func()) {
	t.Helper()
	fail, name := admissionregistrationv1.Fail, "no-shadowpods"
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: &fail,
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{"offloading.liqo.io"}, APIVersions: []string{"*"}, Resources: []string{"shadowpods"}},
				},
			}}},
			Validations: []admissionregistrationv1.Validation{{Expression: "false", Message: message}},
		},
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}
	r.create(r.milan, policy, binding)
	isDenied := func(t planetest.T) bool {
		probe := &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", GenerateName: "probe-"}}
		probe.Spec.Pod.Containers = []corev1.Container{{Name: "probe", Image: "example.com/probe:1"}}
		err := r.milan.Create(t.Context(), probe, client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), message)
	}
	planetest.Until(t, isDenied, soon, tick, "ShadowPods are refused")
	return func() {
		require.NoError(t, r.milan.Delete(t.Context(), binding))
		planetest.Until(t, func(t planetest.T) bool { return !isDenied(t) }, soon, tick, "ShadowPods are accepted")
	}
}

// What the provider's admission says about a ShadowPod is in the status of the local pod, where
// `kubectl describe` and `longshorectl explain` show it.
func TestARefusedShadowPodShowsInTheStatusOfThePod(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.runManager()
	planetest.SimulateNodes(t, r.provider, "milan-worker")
	r.create(r.rome, virtualNode(), r.secret(r.kubeconfig))
	r.mapNamespace()
	allow := r.denyShadowPods(t, "no guests on Sundays")
	r.runKubelet(r.options())
	pod := webPod()
	r.create(r.rome, pod)
	r.awaitReason(t, pod, "Cluster milan refuses the pod: ")
	assert.Contains(t, pod.Status.Message, "no guests on Sundays")
	assert.Equal(t, corev1.PodPending, pod.Status.Phase)
	diagnosis := planner.Diagnose(planner.Observed{Pod: pod})
	require.NotNil(t, diagnosis)
	assert.Equal(t, reflectionpod.ReasonRefused, diagnosis.Reason.Reason)
	assert.Equal(t, planner.ProviderOperator, diagnosis.Who)
	assert.Contains(t, diagnosis.Message, "no guests on Sundays")

	allow()
	// A change tries again at once; otherwise the queue does after its backoff.
	require.NoError(t, r.rome.Patch(t.Context(), pod, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"again":"1"}}}`))))
	planetest.Until(t, func(t planetest.T) bool {
		require.NoError(t, r.rome.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
		return pod.Status.Phase == corev1.PodRunning
	}, soon, tick, "the pod runs")
	assert.Empty(t, pod.Status.Reason)
	assert.Empty(t, pod.Status.Message)
}
