package shadowpod

import (
	"encoding/json"
	"errors"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/policytest"
	"github.com/longshore-dev/longshore/host/provider/quota"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// guarded returns a Mutator that calls one policy, and the policy.
func guarded(t *testing.T, failurePolicy chain.FailurePolicy, function policytest.Func, objects ...client.Object) (*Mutator, *policytest.Policy) {
	t.Helper()
	policy := policytest.Native("guard", contract.Manifest{Points: []contract.PointManifest{{
		Point: contract.ShadowPodAdmission, Reads: []string{"/object", "/quota", "/tenant"}, Writes: []contract.WriteRule{{Path: "/spec", Verbs: contract.Verbs()}},
	}}}, map[contract.Point]func(contract.Request) (contract.Response, error){contract.ShadowPodAdmission: function})
	chains := chain.New(chain.Options{MemoEntries: -1})
	require.NoError(t, chains.Swap([]chain.Binding{{Name: "guard", Policy: policy, Point: contract.ShadowPodAdmission, FailurePolicy: failurePolicy}}))
	c := fakeclient.Builder(objects...).WithIndex(&offloadingv1beta1.Quota{}, "spec.user", quota.UserOf).Build()
	return &Mutator{Decoder: admission.NewDecoder(c.Scheme()), Enforce: true, Policies: &Policies{
		Evaluator: chains, Reader: fakeclient.Builder().Build(), APIReader: c,
		Quotas: &quota.Enforcer{Client: c, APIReader: c, Account: quota.NewAccount(clock.RealClock{}), Clock: clock.RealClock{}},
	}}, policy
}

func answer(operations ...contract.Operation) policytest.Func {
	return func(contract.Request) (contract.Response, error) {
		return contract.Response{Operations: operations}, nil
	}
}

// patched returns the ShadowPod of a request with the patch of a response.
func patched(t *testing.T, r admission.Request, response admission.Response) *offloadingv1beta1.ShadowPod {
	t.Helper()
	require.NoError(t, response.Complete(r))
	require.True(t, response.Allowed, response.Result)
	raw := r.Object.Raw
	if response.Patch != nil {
		patch, err := jsonpatch.DecodePatch(response.Patch)
		require.NoError(t, err)
		raw, err = patch.Apply(raw)
		require.NoError(t, err)
	}
	shadow := &offloadingv1beta1.ShadowPod{}
	require.NoError(t, json.Unmarshal(raw, shadow))
	return shadow
}

func TestPoliciesChangeAShadowPod(t *testing.T) {
	set := contract.Set("/spec/containers[*]/resources/requests/memory", contract.String("64Mi"))
	m, _ := guarded(t, chain.Fail, answer(set), namespace("rome"))
	forged := shadowPod(func(s *offloadingv1beta1.ShadowPod) { s.Labels[offloadingv1beta1.CreatorUserLabel] = "victim" })
	r := request(t, admissionv1.Create, nil, forged, user)
	response := m.Handle(t.Context(), r)
	assert.Contains(t, response.AuditAnnotations["decisions"], `"policy":"guard"`)
	shadow := patched(t, r, response)
	assert.Equal(t, "64Mi", shadow.Spec.Pod.Containers[0].Resources.Requests.Memory().String())
	assert.Equal(t, user, shadow.Labels[offloadingv1beta1.CreatorUserLabel], "the creator label is set in the same response")

	// The same request again changes nothing.
	shadow.Labels[offloadingv1beta1.CreatorUserLabel] = user
	again := m.Handle(t.Context(), request(t, admissionv1.Create, nil, shadow, user))
	assert.True(t, again.Allowed)
	assert.Empty(t, again.Patches)
}

func TestPoliciesKnowTheTenantAndTheQuota(t *testing.T) {
	var facts contract.ShadowPodAdmissionFacts
	m, _ := guarded(t, chain.Fail, func(r contract.Request) (contract.Response, error) {
		return contract.Response{}, json.Unmarshal(r.Facts, &facts)
	}, namespace("rome"), quotaOf("7", nil))
	require.True(t, m.Handle(t.Context(), request(t, admissionv1.Create, nil, shadowPod(nil), user)).Allowed)
	assert.Equal(t, "rome", facts.Tenant.ClusterID)
	require.NotNil(t, facts.Quota)
	assert.Equal(t, "7", facts.Quota.Resources["cpu"])
}

func TestWhatPoliciesRefuse(t *testing.T) {
	deny := func(contract.Request) (contract.Response, error) {
		return contract.Response{Deny: &contract.Denial{Reason: "Privileged", Message: "privileged containers are not allowed"}}, nil
	}
	fail := func(contract.Request) (contract.Response, error) {
		return contract.Response{}, errors.New("secret detail of the provider")
	}
	escape := answer(contract.Set("/spec/hostNetwork", contract.Bool(true)))
	for name, tc := range map[string]struct {
		function      policytest.Func
		failurePolicy chain.FailurePolicy
		cluster       string
		denial        string
	}{
		"a denial":                             {function: deny, denial: `policy "guard" of the provider denied the pod: Privileged: privileged containers are not allowed`},
		"a failure":                            {function: fail, denial: `policy "guard" of the provider gave no valid answer (Guest); an administrator of the provider must correct it, and the pod needs no change`},
		"a failure that is ignored":            {function: fail, failurePolicy: chain.Ignore},
		"less isolation":                       {function: escape, denial: `of the provider changed what no policy may change (/spec/hostNetwork`},
		"less isolation, although ignored":     {function: escape, failurePolicy: chain.Ignore, denial: "; an administrator of the provider must correct it, and the pod needs no change"},
		"a namespace of another cluster first": {function: deny, cluster: "oslo", denial: "does not belong to cluster rome"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := "rome"
			if tc.cluster != "" {
				cluster = tc.cluster
			}
			m, policy := guarded(t, tc.failurePolicy, tc.function, namespace(cluster))
			response := m.Handle(t.Context(), request(t, admissionv1.Create, nil, shadowPod(nil), user))
			assert.Equal(t, tc.denial == "", response.Allowed, response.Result)
			assert.Equal(t, tc.cluster == "", policy.Calls() == 1, "a policy is not called for ShadowPods that the host refuses")
			if tc.denial != "" {
				assert.Contains(t, response.Result.Message, tc.denial)
				assert.NotContains(t, response.Result.Message, "secret detail")
				assert.EqualValues(t, 403, response.Result.Code, "the consumer records an event for it")
			}
		})
	}
}

func TestNoShadowPodIsAdmittedBeforePoliciesAreLoaded(t *testing.T) {
	m, _ := guarded(t, chain.Fail, answer(), namespace("rome"))
	m.Policies.Evaluator = chain.New(chain.Options{})
	response := m.Handle(t.Context(), request(t, admissionv1.Create, nil, shadowPod(nil), user))
	require.False(t, response.Allowed)
	assert.EqualValues(t, 500, response.Result.Code, "the consumer tries again")
}

func TestUpdatesThatPoliciesDecide(t *testing.T) {
	deny := func(contract.Request) (contract.Response, error) {
		return contract.Response{Deny: &contract.Denial{Reason: "Image", Message: "not from this registry"}}, nil
	}
	for name, tc := range map[string]struct {
		edit  func(*offloadingv1beta1.ShadowPod)
		asked bool
	}{
		"an image":      {func(s *offloadingv1beta1.ShadowPod) { s.Spec.Pod.Containers[0].Image = "i:2" }, true},
		"a label":       {func(s *offloadingv1beta1.ShadowPod) { s.Labels["team"] = "a" }, true},
		"the creator":   {func(s *offloadingv1beta1.ShadowPod) { s.Labels[offloadingv1beta1.CreatorUserLabel] = "me" }, false},
		"an annotation": {func(s *offloadingv1beta1.ShadowPod) { s.Annotations = map[string]string{"lb": "public"} }, true},
		"a status":      {func(s *offloadingv1beta1.ShadowPod) { s.Status.Phase = "Running" }, false},
		"nothing":       {func(*offloadingv1beta1.ShadowPod) {}, false},
		"finalizers":    {func(s *offloadingv1beta1.ShadowPod) { s.Finalizers = []string{"foregroundDeletion"} }, false},
		"an image while it is being deleted": {func(s *offloadingv1beta1.ShadowPod) {
			s.DeletionTimestamp, s.Finalizers = &metav1.Time{Time: metav1.Now().Time}, []string{"f"}
			s.Spec.Pod.Containers[0].Image = "i:2"
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			m, policy := guarded(t, chain.Fail, deny, namespace("rome"))
			response := m.Handle(t.Context(), request(t, admissionv1.Update, shadowPod(nil), shadowPod(tc.edit), "anyone"))
			assert.Equal(t, tc.asked, policy.Calls() == 1)
			assert.Equal(t, !tc.asked, response.Allowed, response.Result)
		})
	}
}

// A policy changes the pod on an update of the metadata as it does on creation.
func TestPoliciesChangeAnUpdatedShadowPod(t *testing.T) {
	set := contract.Set("/spec/containers[*]/resources/requests/memory", contract.String("64Mi"))
	m, _ := guarded(t, chain.Fail, answer(set), namespace("rome"))
	labeled := shadowPod(func(s *offloadingv1beta1.ShadowPod) { s.Labels["team"] = "a" })
	r := request(t, admissionv1.Update, shadowPod(nil), labeled, "anyone")
	assert.Equal(t, "64Mi", patched(t, r, m.Handle(t.Context(), r)).Spec.Pod.Containers[0].Resources.Requests.Memory().String())
}

func TestWithoutAPolicyNothingIsRead(t *testing.T) {
	m, _ := guarded(t, chain.Fail, answer())
	chains := chain.New(chain.Options{})
	require.NoError(t, chains.Swap(nil))
	m.Policies.Evaluator = chains
	response := m.Handle(t.Context(), request(t, admissionv1.Create, nil, shadowPod(nil), user))
	assert.True(t, response.Allowed, "the namespace, which does not exist here, is not read: %v", response.Result)
}
