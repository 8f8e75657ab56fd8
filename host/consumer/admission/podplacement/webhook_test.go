package podplacement

import (
	"encoding/json"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	builtin "github.com/longshore-dev/longshore/builtin-policies/podplacement"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/policytest"
	"github.com/longshore-dev/longshore/sdk/contract"
)

type decide = func(contract.Request) (contract.Response, error)

// handler returns a Handler with one native policy.
func handler(t *testing.T, policy decide, existing ...client.Object) *Handler {
	t.Helper()
	manifest := contract.Manifest{
		Name: "test", Version: "1", Contracts: contract.Versions(), Points: []contract.PointManifest{builtin.Manifest()},
	}
	chains := chain.New(chain.Options{})
	require.NoError(t, chains.Swap([]chain.Binding{{
		Name: "default-podplacement", Point: contract.PodMutation,
		Policy: policytest.Native("test", manifest, map[contract.Point]decide{contract.PodMutation: policy}),
	}}))
	return &Handler{
		Reader:   fakeclient.Builder(existing...).Build(),
		Policies: chains, RuntimeClassName: "liqo",
	}
}

func offloaded(strategy offloadingv1beta1.PodOffloadingStrategyType) []client.Object {
	return []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}},
		&offloadingv1beta1.NamespaceOffloading{
			ObjectMeta: metav1.ObjectMeta{Name: "offloading", Namespace: "shop"},
			Spec:       offloadingv1beta1.NamespaceOffloadingSpec{PodOffloadingStrategy: strategy},
		},
	}
}

// rawPod has an unknown field.
const rawPod = `{"metadata":{"name":"web","labels":{"app":"web"},"annotations":{"note":"kept"}},"spec":{"containers":[{"name":"c","image":"i"}],"futureField":{"kept":true}}}`

func ask(t *testing.T, h *Handler, pod []byte) admission.Response {
	t.Helper()
	return h.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Namespace: "shop", Operation: admissionv1.Create, UserInfo: authenticationv1.UserInfo{Username: "ada"},
		Object: runtime.RawExtension{Raw: pod},
	}})
}

func applied(t *testing.T, pod []byte, response admission.Response) []byte {
	t.Helper()
	if len(response.Patch) == 0 {
		return pod
	}
	patch, err := jsonpatch.DecodePatch(response.Patch)
	require.NoError(t, err)
	after, err := patch.Apply(pod)
	require.NoError(t, err)
	return after
}

func TestAPodOfAnOffloadedNamespaceIsPlaced(t *testing.T) {
	h := handler(t, policytest.Decide(builtin.Decide), offloaded(offloadingv1beta1.RemotePodOffloadingStrategyType)...)
	response := ask(t, h, []byte(rawPod))
	require.True(t, response.Allowed, response.Result)
	after := applied(t, []byte(rawPod), response)
	pod := &corev1.Pod{}
	require.NoError(t, json.Unmarshal(after, pod))
	assert.Equal(t, []corev1.Toleration{{Key: "virtual-node.liqo.io/not-allowed", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}}, pod.Spec.Tolerations)
	require.NotNil(t, pod.Spec.Affinity)
	assert.Equal(t, []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: "liqo.io/type", Operator: corev1.NodeSelectorOpIn, Values: []string{"virtual-node"}},
	}}}, pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms)
	assert.Contains(t, pod.Annotations["policy.longshore.dev/decisions"], "default-podplacement")
	assert.Equal(t, "kept", pod.Annotations["note"])
	assert.Contains(t, string(after), `"futureField":{"kept":true}`, "fields that this build does not know survive")

	again := ask(t, h, after)
	require.True(t, again.Allowed)
	twice := &corev1.Pod{}
	require.NoError(t, json.Unmarshal(applied(t, after, again), twice))
	assert.Equal(t, pod.Spec, twice.Spec, "placing a pod twice is placing it once")
}

func TestAPolicyThatViolatesAnInvariantIsNamed(t *testing.T) {
	writes := []contract.WriteRule{{Path: "/spec", Verbs: contract.Verbs()}, {Path: "/metadata/annotations", Verbs: contract.Verbs()}}
	for name, tc := range map[string]struct {
		operation contract.Operation
		want      string
	}{
		"the host's network":         {contract.Set("/spec/hostNetwork", contract.Bool(true)), "/spec/hostNetwork: set to true"},
		"another account":            {contract.Set("/spec/serviceAccountName", contract.String("admin")), "/spec/serviceAccountName: changed"},
		"a node":                     {contract.Set("/spec/nodeName", contract.String("n1")), "/spec/nodeName: changed"},
		"privileges":                 {contract.Set("/spec/containers[*]/securityContext", contract.Raw(`{"privileged":true}`)), "/spec/containers[name=c]/securityContext/privileged: set to true"},
		"a removed security context": {contract.Remove("/spec", "securityContext"), "/spec/containers[name=c]/securityContext/runAsNonRoot: no longer true"},
		"an annotation of a runtime": {contract.Merge("/metadata/annotations", contract.StringMap{"io.kubernetes.cri-o.x": "y"}), "/metadata/annotations/io.kubernetes.cri-o.x"},
		"another image":              {contract.Set("/spec/containers[*]/image", contract.String("mirror/i")), ""},
		"another node selector":      {contract.Merge("/spec/nodeSelector", contract.StringMap{"a": "b"}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			manifest := contract.Manifest{Points: []contract.PointManifest{{Point: contract.PodMutation, Writes: writes}}}
			h := handler(t, policytest.Decide(builtin.Decide), offloaded(offloadingv1beta1.RemotePodOffloadingStrategyType)...)
			first, second := 0, 1
			chains := chain.New(chain.Options{})
			require.NoError(t, chains.Swap([]chain.Binding{
				{Name: "innocent", Point: contract.PodMutation, Order: &first, Policy: policytest.Native("innocent", manifest, map[contract.Point]decide{
					contract.PodMutation: func(contract.Request) (contract.Response, error) {
						return contract.Response{Operations: []contract.Operation{contract.Merge("/spec/nodeSelector", contract.StringMap{"x": "y"})}}, nil
					},
				})},
				{Name: "evil", Point: contract.PodMutation, Order: &second, Policy: policytest.Native("evil-module", manifest, map[contract.Point]decide{
					contract.PodMutation: func(contract.Request) (contract.Response, error) {
						return contract.Response{Operations: []contract.Operation{tc.operation}}, nil
					},
				})},
			}))
			h.Policies = chains
			response := ask(t, h, []byte(`{"metadata":{"name":"web"},"spec":{"securityContext":{"runAsNonRoot":true},"containers":[{"name":"c","image":"i"}],"futureField":1}}`))
			if tc.want == "" {
				assert.True(t, response.Allowed, response.Result)
				return
			}
			require.False(t, response.Allowed)
			assert.Equal(t, int32(500), response.Result.Code)
			assert.Contains(t, response.Result.Message, tc.want)
			assert.Contains(t, response.Result.Message, `policy "evil" (module evil-module, `)
			assert.NotContains(t, response.Result.Message, "innocent")
			assert.Contains(t, response.Result.Message, "the author must correct the policy")
		})
	}
}

func TestALocalPodIsNotChanged(t *testing.T) {
	h := handler(t, policytest.Decide(builtin.Decide), offloaded(offloadingv1beta1.LocalPodOffloadingStrategyType)...)
	response := ask(t, h, []byte(rawPod))
	assert.True(t, response.Allowed)
	assert.Empty(t, response.Patch)
}

func TestAPodWithoutANamespaceOffloadingIsRejected(t *testing.T) {
	response := ask(t, handler(t, policytest.Decide(builtin.Decide)), []byte(rawPod))
	assert.False(t, response.Allowed)
	assert.Equal(t, int32(500), response.Result.Code, "T6")
	assert.Contains(t, response.Result.Message, `no NamespaceOffloading "offloading" yet`)
}

func TestDenialsAndErrorsNameThePolicy(t *testing.T) {
	cases := map[string]struct {
		policy decide
		want   string
	}{
		"a denial": {
			func(r contract.Request) (contract.Response, error) {
				return contract.Response{Version: r.Version, Deny: &contract.Denial{Reason: "Frozen", Message: "no releases on Fridays"}}, nil
			}, "denied the object: Frozen: no releases on Fridays; its owner must change the object, or an operator the policy"},
		"a response outside of its write set": {
			func(r contract.Request) (contract.Response, error) {
				return contract.Response{Version: r.Version, Operations: []contract.Operation{contract.Set("/spec/hostNetwork", contract.Bool(true))}}, nil
			}, `gave no valid answer at PodMutation/Admission (UndeclaredWrite): checking the answer: operation 0 is outside of what the module declares and the binding allows: set /spec/hostNetwork is not allowed`},
		"an error": {
			func(contract.Request) (contract.Response, error) { return contract.Response{}, assert.AnError },
			`(Guest): ` + assert.AnError.Error() + `; if spec.settings of OffloadingPolicy "default-podplacement", or of the ConfigMap that defines it, are missing or wrong, an operator must correct them; otherwise the module's author must correct the module; meanwhile, an operator can set spec.failurePolicy or spec.mode of OffloadingPolicy "default-podplacement", or of the ConfigMap that defines it`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			response := ask(t, handler(t, tc.policy, offloaded(offloadingv1beta1.RemotePodOffloadingStrategyType)...), []byte(rawPod))
			assert.False(t, response.Allowed)
			assert.Contains(t, response.Result.Message, `policy "default-podplacement" (module `)
			assert.Contains(t, response.Result.Message, tc.want)
		})
	}
}

func TestAPolicyThatIsSkippedCausesAWarning(t *testing.T) {
	h := handler(t, policytest.Decide(builtin.Decide), offloaded(offloadingv1beta1.RemotePodOffloadingStrategyType)...)
	manifest := contract.Manifest{Points: []contract.PointManifest{{Point: contract.PodMutation}}}
	fails := policytest.Native("buggy-module", manifest, map[contract.Point]decide{
		contract.PodMutation: func(contract.Request) (contract.Response, error) { return contract.Response{}, assert.AnError },
	})
	chains := chain.New(chain.Options{})
	require.NoError(t, chains.Swap([]chain.Binding{{Name: "buggy", Point: contract.PodMutation, Policy: fails, FailurePolicy: chain.Ignore}}))
	h.Policies = chains
	response := ask(t, h, []byte(rawPod))
	assert.True(t, response.Allowed)
	require.Len(t, response.Warnings, 1)
	assert.Contains(t, response.Warnings[0], `policy "buggy" (module buggy-module, `+chain.ShortDigest(fails.Digest())+`) gave no valid answer at PodMutation/Admission (Guest): `)
}
