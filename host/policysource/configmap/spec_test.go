package configmap_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policysource/configmap"
)

// source is a ConfigMap with a module and a spec.
func source(spec string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "longshore", Name: "mine", Labels: map[string]string{policyv1alpha1.PolicyLabel: "true"}},
		BinaryData: map[string][]byte{"module.wasm.gz": {0xff}},
		Data:       map[string]string{"policy.yaml": spec},
	}
}

func TestSpecIsThatOfTheConfigMapWithItsModule(t *testing.T) {
	cm := source("points: [PodMutation]\norder: 10\nsettings: {rewrites: [{from: a, to: b}]}\nfailurePolicy: Ignore\n")
	spec, bad := configmap.Spec(cm)
	require.Nil(t, bad)
	assert.Equal(t, &policyv1alpha1.ConfigMapSource{Namespace: "longshore", Name: "mine", Key: "module.wasm.gz"}, spec.Module.ConfigMap)
	assert.Equal(t, []policyv1alpha1.ExtensionPoint{policyv1alpha1.PodMutationPoint}, spec.Points)
	assert.Equal(t, ptr.To[int32](10), spec.Order)
	assert.JSONEq(t, `{"rewrites":[{"from":"a","to":"b"}]}`, string(spec.Settings.Raw))
	assert.Equal(t, policyv1alpha1.FailurePolicyIgnore, spec.FailurePolicy)
	assert.Equal(t, policyv1alpha1.ModeEnforce, spec.Mode)

	cm.Data["policy.yaml"] = "module: {configMap: {parts: [mine-2, mine-3], digest: 'sha256:ab'}}"
	spec, bad = configmap.Spec(cm)
	require.Nil(t, bad)
	assert.Equal(t, &policyv1alpha1.ConfigMapSource{
		Namespace: "longshore", Name: "mine", Key: "module.wasm.gz", Parts: []string{"mine-2", "mine-3"}, Digest: "sha256:ab",
	}, spec.Module.ConfigMap)

	delete(cm.Data, "policy.yaml")
	spec, bad = configmap.Spec(cm)
	require.Nil(t, bad, "policy.yaml is optional")
	assert.Equal(t, policyv1alpha1.FailurePolicyFail, spec.FailurePolicy)
	assert.Empty(t, spec.Points)
}

func TestBadConfigMapsAreRefusedWithTheReason(t *testing.T) {
	with := func(change func(*corev1.ConfigMap)) *corev1.ConfigMap {
		cm := source("")
		change(cm)
		return cm
	}
	for name, tc := range map[string]struct {
		source       *corev1.ConfigMap
		reason, want string
	}{
		"a misspelled field":         {source("ordr: 10"), configmap.ReasonInvalidSpec, `policy.yaml: unknown field "ordr"; its author must correct it`},
		"a field in the wrong case":  {source("Order: 10"), configmap.ReasonInvalidSpec, `unknown field "Order"`},
		"a misspelled field below":   {source("match: {namespaceSelectr: {}}"), configmap.ReasonInvalidSpec, `unknown field "match.namespaceSelectr"`},
		"two misspelled fields":      {source("ordr: 10\nmod: x"), configmap.ReasonInvalidSpec, `unknown field "mod", unknown field "ordr"; its author must correct it`},
		"a field twice":              {source("order: 1\norder: 2"), configmap.ReasonInvalidSpec, `"order" already set`},
		"a value of another type":    {source("order: high"), configmap.ReasonInvalidSpec, "OffloadingPolicySpec.order of type int32"},
		"a module of its own":        {source("module: {builtIn: default}"), configmap.ReasonInvalidSpec, `"module" must not be set`},
		"another ConfigMap's module": {source("module: {configMap: {name: other}}"), configmap.ReasonInvalidSpec, "but for parts and digest of its configMap"},
		"invalid YAML":               {source("order: ["), configmap.ReasonInvalidSpec, "policy.yaml: reading YAML"},
		"no mapping":                 {source("- order"), configmap.ReasonInvalidSpec, "policy.yaml: json: cannot unmarshal array"},
		"a spec that is not text": {with(func(cm *corev1.ConfigMap) {
			cm.BinaryData["policy.yaml"] = []byte{0xff}
		}), configmap.ReasonInvalidSpec, "its author must store it in data"},
		"no module": {with(func(cm *corev1.ConfigMap) { cm.BinaryData = nil }), configmap.ReasonNoModule, "binaryData has none of module.wasm, module.wasm.gz, module.wasm.zst"},
		"two modules": {with(func(cm *corev1.ConfigMap) { cm.BinaryData["module.wasm"] = nil }), configmap.ReasonNoModule,
			"more than one module, module.wasm, module.wasm.gz"},
	} {
		t.Run(name, func(t *testing.T) {
			_, bad := configmap.Spec(tc.source)
			require.NotNil(t, bad)
			assert.Equal(t, tc.reason, bad.Reason)
			assert.Contains(t, bad.Err.Error(), tc.want)
			assert.Contains(t, bad.Err.Error(), "author", "it says who must act")
		})
	}
}
