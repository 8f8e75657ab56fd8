package view_test

import (
	"context"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/policytest"
	"github.com/longshore-dev/longshore/host/policy/view"
	"github.com/longshore-dev/longshore/sdk/contract"
)

const shadowPod = `{"apiVersion":"offloading.liqo.io/v1beta1","kind":"ShadowPod","metadata":{"name":"web","namespace":"shop-rome","uid":"1",` +
	`"labels":{"app":"web"},"annotations":{"policy.longshore.dev/decisions":"[]","note":"n"}},` +
	`"spec":{"pod":{"newField":{"a":1},"containers":[{"name":"web","image":"web:1","newField":2}]},"other":true}}`

func shadowPodInput() view.ShadowPodInput {
	quota := &offloadingv1beta1.Quota{}
	quota.Spec.Resources = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	quota.Spec.LimitsEnforcement = offloadingv1beta1.HardLimitsEnforcement
	quota.Status.Used = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")}
	return view.ShadowPodInput{
		Raw: []byte(shadowPod), Tenant: contract.Tenant{ClusterID: "rome"}, User: "gpu", Groups: []string{"g"}, DryRun: true, Quota: quota,
		Namespace: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop-rome", Labels: map[string]string{"l": "v"}}},
	}
}

func admitting(reads []string, function policytest.Func) *policytest.Policy {
	return policytest.Native("guard", contract.Manifest{Points: []contract.PointManifest{
		{Point: contract.ShadowPodAdmission, Reads: reads, Writes: anything("/spec")},
	}}, map[contract.Point]func(contract.Request) (contract.Response, error){contract.ShadowPodAdmission: function})
}

func admitShadowPod(t *testing.T, policy *policytest.Policy) (*view.AdmissionResult, error) {
	t.Helper()
	chains := chain.New(chain.Options{})
	require.NoError(t, chains.Swap([]chain.Binding{{Name: "guard", Policy: policy, Point: contract.ShadowPodAdmission}}))
	return view.AdmitShadowPod(t.Context(), chains, shadowPodInput())
}

func TestFactsOfShadowPodAdmission(t *testing.T) {
	var facts string
	_, err := admitShadowPod(t, admitting([]string{"/object", "/tenant", "/namespace", "/request", "/quota"}, func(r contract.Request) (contract.Response, error) {
		facts = string(r.Facts)
		return contract.Response{}, nil
	}))
	require.NoError(t, err)
	assert.JSONEq(t, `{"object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop-rome","labels":{"app":"web"},"annotations":{"note":"n"}},
		"spec":{"newField":{"a":1},"containers":[{"name":"web","image":"web:1","newField":2}]}},
		"tenant":{"clusterID":"rome"},"namespace":{"name":"shop-rome","labels":{"l":"v"}},
		"request":{"user":"gpu","groups":["g"],"dryRun":true},
		"quota":{"resources":{"cpu":"4"},"used":{"cpu":"500m"},"limitsEnforcement":"Hard"}}`, facts)
}

func TestShadowPodAdmissionPatchesThePodOfTheShadowPod(t *testing.T) {
	result, err := admitShadowPod(t, admitting(nil, func(contract.Request) (contract.Response, error) {
		return contract.Response{Operations: []contract.Operation{
			contract.Set("/spec/containers[*]/resources/requests/cpu", contract.String("100m")),
			contract.Ensure("/spec/tolerations", contract.Toleration{Key: "tenant"}),
		}}, nil
	}))
	require.NoError(t, err)
	require.True(t, result.Changed)
	raw, err := result.JSONPatch(nil)
	require.NoError(t, err)
	patch, err := jsonpatch.DecodePatch(raw)
	require.NoError(t, err)
	patched, err := patch.Apply([]byte(shadowPod))
	require.NoError(t, err)
	assert.Contains(t, string(patched), `"tolerations":[{"key":"tenant"}]`)
	assert.Contains(t, string(patched), `"resources":{"requests":{"cpu":"100m"}}`)
	assert.Contains(t, string(patched), `"newField":{"a":1}`, "fields that the host does not know stay")
	assert.Contains(t, string(patched), `"policy.longshore.dev/decisions":"[]"`)
}

func TestShadowPodAdmissionWritesNoMetadata(t *testing.T) {
	policy := policytest.Native("guard", contract.Manifest{Points: []contract.PointManifest{
		{Point: contract.ShadowPodAdmission, Writes: anything("/metadata/labels")},
	}}, nil)
	err := chain.Check([]chain.Binding{{Name: "guard", Policy: policy, Point: contract.ShadowPodAdmission}})
	var unusable *chain.BindingError
	require.ErrorAs(t, err, &unusable)
	assert.Equal(t, allVerbs("/spec"), notAllowed(t, err).Allowed)
}

func TestAShadowPodIsDenied(t *testing.T) {
	result, err := admitShadowPod(t, admitting(nil, func(contract.Request) (contract.Response, error) {
		return contract.Response{Deny: &contract.Denial{Reason: "Privileged", Message: "no"}}, nil
	}))
	require.NoError(t, err)
	require.NotNil(t, result.Denial)
	assert.Equal(t, "Privileged", result.Denial.Reason)
}

func TestWhatOfAShadowPodPoliciesDecideAgain(t *testing.T) {
	with := func(metadata, pod string) string {
		return `{"metadata":{"name":"web","namespace":"shop-rome",` + metadata + `},"spec":{"pod":` + pod + `}}`
	}
	const pod, labels = `{"newField":{"a":1},"containers":[{"name":"web","image":"web:1","newField":2}]}`, `"labels":{"app":"web"}`
	const metadata = labels + `,"annotations":{"note":"n"}`
	for name, tc := range map[string]struct {
		reads    []string
		selector *string
		mode     chain.Mode
		after    string
		asked    bool
	}{
		"nothing":                                        {reads: []string{"/object"}, after: shadowPod},
		"what is not the pod's":                          {reads: []string{"/object"}, after: with(metadata+`,"finalizers":["a/b"],"uid":"2","ownerReferences":[]`, pod)},
		"the decisions of the consumer":                  {reads: []string{"/object"}, after: with(labels+`,"annotations":{"note":"n","policy.longshore.dev/decisions":"[1]"}`, pod)},
		"the label of the creator":                       {reads: []string{"/object"}, after: with(`"labels":{"app":"web","creator":"me"},"annotations":{"note":"n"}`, pod)},
		"the order of fields":                            {reads: []string{"/object"}, after: with(metadata, `{"containers":[{"newField":2,"image":"web:1","name":"web"}],"hostname":null,"newField":{"a":1}}`)},
		"the spec, whatever is read":                     {reads: []string{"/object/metadata/labels/app"}, after: with(metadata, `{"newField":{"a":1},"containers":[{"name":"web","image":"web:2","newField":2}]}`), asked: true},
		"no pod":                                         {reads: []string{"/object"}, after: `{"metadata":{},"spec":{}}`, asked: true},
		"a label":                                        {reads: []string{"/object/metadata/labels"}, after: with(`"labels":{"app":"web","team":"a"},"annotations":{"note":"n"}`, pod), asked: true},
		"a label that is gone":                           {reads: []string{"/object/metadata/labels/app"}, after: with(`"annotations":{"note":"n"}`, pod), asked: true},
		"a label that is not read":                       {reads: []string{"/object/metadata/labels/app"}, after: with(`"labels":{"app":"web","team":"a"},"annotations":{"note":"n"}`, pod)},
		"an annotation":                                  {reads: []string{"/object/metadata/annotations"}, after: with(labels+`,"annotations":{"note":"m"}`, pod), asked: true},
		"an annotation, while labels are read":           {reads: []string{"/object/metadata/labels"}, after: with(labels+`,"annotations":{"note":"m"}`, pod)},
		"a label, with a policy that only watches":       {reads: []string{"/object"}, mode: chain.Shadow, after: with(`"labels":{"app":"cart"}`, pod)},
		"a label by which the policy is now bound":       {reads: []string{"/tenant"}, selector: new("cart"), after: with(`"labels":{"app":"cart"},"annotations":{"note":"n"}`, pod), asked: true},
		"a label by which it was bound":                  {reads: []string{"/object"}, selector: new("web"), after: with(`"labels":{"app":"cart"},"annotations":{"note":"n"}`, pod)},
		"a label, while the policy is never bound":       {reads: []string{"/object"}, selector: new("x"), after: with(`"labels":{"app":"cart"},"annotations":{"note":"n"}`, pod)},
		"a label that is not read, while it stays bound": {reads: []string{"/tenant"}, selector: new("web"), after: with(`"labels":{"app":"web","team":"a"},"annotations":{"note":"n"}`, pod)},
	} {
		t.Run(name, func(t *testing.T) {
			policy := admitting(tc.reads, func(contract.Request) (contract.Response, error) { panic("no policy is called") })
			binding := chain.Binding{Name: "guard", Policy: policy, Point: contract.ShadowPodAdmission, Mode: tc.mode}
			if tc.selector != nil {
				binding.Match = ofApp(*tc.selector)
			}
			chains := chain.New(chain.Options{})
			require.NoError(t, chains.Swap([]chain.Binding{binding}))
			asked, err := view.ChangesShadowPod(t.Context(), chains, view.ShadowPodChange{
				Before: []byte(shadowPod), After: []byte(tc.after), Namespace: "shop-rome", Ignored: []string{"creator"},
			})
			require.NoError(t, err)
			assert.Equal(t, tc.asked, asked)
		})
	}
	_, err := view.ChangesShadowPod(t.Context(), chain.New(chain.Options{}), view.ShadowPodChange{Before: []byte(shadowPod), After: []byte(`{"spec":7}`)})
	require.Error(t, err)
	_, err = view.ChangesShadowPod(t.Context(), chain.New(chain.Options{}), view.ShadowPodChange{Before: []byte(shadowPod), After: []byte(with(labels, pod))})
	require.ErrorIs(t, err, chain.ErrNotLoaded, "nothing passes before the policies are known")
}

// ofApp matches objects by their label app.
type ofApp string

func (app ofApp) Matches(_ context.Context, a chain.Attributes) (bool, error) {
	return a.Labels["app"] == string(app), nil
}
