package policysource_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policysource/plan"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// badObject is an OffloadingPolicy that cannot be bound, the reason and a part of the message.
type badObject struct {
	name    string
	spec    func(*policyv1alpha1.OffloadingPolicySpec)
	content string
	reason  string
	want    string
}

func (b badObject) withDefaults() badObject {
	if b.name == "" {
		b.name = "mine"
	}
	if b.content == "" {
		b.content = "v1"
	}
	return b
}

// addressee matches the role that must act on a refusal: the operator, or the author of the
// module or ConfigMap. Each message names one.
var addressee = regexp.MustCompile(`(the|an) operator (must|can) |[^ ]+ author must `)

func badObjects() map[string]badObject {
	return map[string]badObject{
		"no module":           {spec: func(s *policyv1alpha1.OffloadingPolicySpec) { s.Module = policyv1alpha1.ModuleSource{} }, reason: plan.ReasonInvalidSpec, want: "spec.module: the operator must set exactly one"},
		"an unknown built-in": {spec: func(s *policyv1alpha1.OffloadingPolicySpec) { s.Module.BuiltIn = "x" }, reason: plan.ReasonInvalidSpec, want: `spec.module.builtIn "x" is unknown`},
		"limits that the built-in exceeds": {spec: func(s *policyv1alpha1.OffloadingPolicySpec) {
			s.Limits = &policyv1alpha1.Limits{Memory: resource.NewQuantity(1, resource.BinarySI)}
		}, content: "v1", reason: plan.ReasonModuleNotLoaded, want: "the module needs more memory than 1 byte"},
		"a point that the module does not answer": {spec: func(s *policyv1alpha1.OffloadingPolicySpec) {
			fromConfigMap(s)
			s.Points = []policyv1alpha1.ExtensionPoint{"MetadataFilter"}
		}, reason: plan.ReasonInvalidSpec, want: `spec.points: module "custom" does not answer MetadataFilter, only PodMutation`},
		"a match condition that does not compile":    {spec: conditions("object.metadata.name ="), reason: plan.ReasonInvalidSpec, want: `spec.match.matchConditions["c"] does not compile, the operator must correct it: `},
		"a match condition of another type":          {spec: conditions("object"), reason: plan.ReasonInvalidSpec, want: `spec.match.matchConditions["c"] is of type map(string, dyn): the operator must make it an expression of type bool`},
		"a match condition with an unknown variable": {spec: conditions("request.user == 'me'"), reason: plan.ReasonInvalidSpec, want: `spec.match.matchConditions["c"] does not compile`},
		"an unknown mode":                            {spec: func(s *policyv1alpha1.OffloadingPolicySpec) { s.Mode = "Later" }, reason: plan.ReasonInvalidSpec, want: `spec.mode "Later" is unknown: the operator must set`},
		"no fuel": {spec: func(s *policyv1alpha1.OffloadingPolicySpec) { s.Limits = &policyv1alpha1.Limits{Fuel: new(int64)} },
			reason: plan.ReasonInvalidSpec, want: "spec.limits.fuel is 0: the operator must set a positive number"},
		"no memory": {spec: func(s *policyv1alpha1.OffloadingPolicySpec) {
			s.Limits = &policyv1alpha1.Limits{Memory: &resource.Quantity{}}
		},
			reason: plan.ReasonInvalidSpec, want: "spec.limits.memory is 0: the operator must set a positive number of bytes"},
		"more fuel than the host grants": {spec: func(s *policyv1alpha1.OffloadingPolicySpec) {
			s.Limits = &policyv1alpha1.Limits{Fuel: ptr.To[int64](contract.MaxFuel + 1)}
		}, reason: plan.ReasonInvalidSpec, want: "spec.limits.fuel is 2000001, more than the host's bound of 2000000: the operator must lower it, or remove it"},
		"fuel close to the largest integer": {spec: func(s *policyv1alpha1.OffloadingPolicySpec) {
			s.Limits = &policyv1alpha1.Limits{Fuel: ptr.To[int64](9e18)}
		}, reason: plan.ReasonInvalidSpec, want: "spec.limits.fuel is 9000000000000000000, more than the host's bound of 2000000: the operator must lower it, or remove it"},
		"more memory than the host grants": {spec: func(s *policyv1alpha1.OffloadingPolicySpec) {
			s.Limits = &policyv1alpha1.Limits{Memory: ptr.To(resource.MustParse("2Gi"))}
		}, reason: plan.ReasonInvalidSpec, want: "spec.limits.memory is 2Gi, more than the host's bound of 32Mi: the operator must lower it, or remove it"},
		"two keys and no name": {spec: func(s *policyv1alpha1.OffloadingPolicySpec) {
			fromConfigMap(s)
			s.Module.ConfigMap.Name, s.Module.ConfigMap.Key = "two-keys", ""
		}, reason: plan.ReasonInvalidSpec, want: "spec.module.configMap.key: binaryData of ConfigMap longshore/two-keys has 2 keys: the operator must name one"},
		"a module stored as text": {spec: func(s *policyv1alpha1.OffloadingPolicySpec) {
			fromConfigMap(s)
			s.Module.ConfigMap.Name, s.Module.ConfigMap.Key = "two-keys", "text"
		}, reason: plan.ReasonModuleNotLoaded, want: `key "text" of ConfigMap longshore/two-keys is text in data and not a WebAssembly module: its author must store`},
		"settings that are a list": {spec: func(s *policyv1alpha1.OffloadingPolicySpec) { s.Settings = &runtime.RawExtension{Raw: []byte(`[]`)} },
			reason: plan.ReasonBindingRefused, want: `binding policy "mine" at`},
		"a broken selector": {spec: func(s *policyv1alpha1.OffloadingPolicySpec) {
			s.Match = &policyv1alpha1.Match{ObjectSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Likes"}}}}
		}, reason: plan.ReasonInvalidSpec, want: "spec.match.objectSelector"},
		"settings refused": {spec: func(s *policyv1alpha1.OffloadingPolicySpec) {
			fromConfigMap(s)
			s.Settings = &runtime.RawExtension{Raw: []byte(`{"bad":true}`)}
		}, reason: plan.ReasonInvalidSettings, want: "spec.settings: policy module custom refuses its settings, the operator must correct them: bad must be false"},
		"an allow list with an unknown path": {spec: func(s *policyv1alpha1.OffloadingPolicySpec) {
			fromConfigMap(s)
			s.Allow = &policyv1alpha1.Allow{Reads: []string{"/nothing"}}
		}, reason: plan.ReasonBindingRefused, want: "binding policy \"mine\" at PodMutation: spec.allow.reads"},
		"another namespace": {spec: func(s *policyv1alpha1.OffloadingPolicySpec) {
			fromConfigMap(s)
			s.Module.ConfigMap.Namespace = "kube-system"
		}, reason: plan.ReasonInvalidSpec, want: "spec.module.configMap.namespace"},
		"no such ConfigMap": {spec: func(s *policyv1alpha1.OffloadingPolicySpec) { fromConfigMap(s); s.Module.ConfigMap.Name = "gone" }, reason: plan.ReasonModuleNotFound, want: "ConfigMap longshore/gone does not exist"},
		"no such key":       {spec: func(s *policyv1alpha1.OffloadingPolicySpec) { fromConfigMap(s); s.Module.ConfigMap.Key = "gone" }, reason: plan.ReasonModuleNotFound, want: "binaryData"},
		"settings missing":  {spec: fromConfigMap, content: "needs settings", reason: plan.ReasonInvalidSettings, want: "spec.settings: policy module custom refuses its settings, the operator must correct them: spec.settings.suffix is required"},
		"a broken module":   {spec: fromConfigMap, content: "broken", reason: plan.ReasonModuleNotLoaded, want: "the module is cut in half"},
		"a default at another point": {name: "default-podplacement", spec: func(s *policyv1alpha1.OffloadingPolicySpec) {
			s.Points = []policyv1alpha1.ExtensionPoint{"MetadataFilter"}
		}, reason: plan.ReasonInvalidSpec, want: `spec.points: policy "default-podplacement" replaces the default of PodMutation`},
		"writes that need an order": {spec: func(s *policyv1alpha1.OffloadingPolicySpec) {
			s.Points = []policyv1alpha1.ExtensionPoint{"OffloadingPatch"}
		}, reason: plan.ReasonOrderNeeded, want: `policies "default-offloadingpatch" and "mine" both write /spec/nodeSelector at OffloadingPatch`},
	}
}

func TestPoliciesThatCannotBeBoundAreDenied(t *testing.T) {
	for name, tc := range badObjects() {
		t.Run(name, func(t *testing.T) {
			tc = tc.withDefaults()
			r := newRig(t, configMap(tc.content), twoKeys())
			r.mustPass()
			verdict, err := r.source.Judge(t.Context(), object(tc.name, tc.spec), nil)
			require.NoError(t, err)
			assert.Equal(t, tc.reason, verdict.Reason)
			if tc.reason == plan.ReasonModuleNotFound {
				assert.Empty(t, verdict.Denial, "it may be created later")
				require.Len(t, verdict.Warnings, 1)
				assert.Contains(t, verdict.Warnings[0], `this version of policy "mine" is not used yet: `+tc.want)
				assert.Len(t, addressee.FindAllString(verdict.Warnings[0], -1), 1, verdict.Warnings[0])
				return
			}
			assert.Contains(t, verdict.Denial, tc.want)
			assert.Len(t, addressee.FindAllString(verdict.Denial, -1), 1, verdict.Denial)
			assert.Empty(t, verdict.Warnings)
			assert.Len(t, r.closed, len(r.loads)-strings.Count(strings.Join(r.loads, " "), "broken")-strings.Count(strings.Join(r.loads, " "), "default"), "modules loaded for the verdict are closed")
			assert.Equal(t, []string{"default-podplacement"}, r.called(contract.PodMutation))
		})
	}
}

func TestJudgeComparesWithTheBoundPolicies(t *testing.T) {
	r := newRig(t, configMap("v1"), object("elder", fromConfigMap))
	r.mustPass()
	one := int32(1)
	for name, tc := range map[string]struct {
		policy *policyv1alpha1.OffloadingPolicy
		stored *corev1.ConfigMap
		reason string
	}{
		"the policy is unchanged":                         {policy: object("elder", fromConfigMap)},
		"the policy is disabled and its module is broken": {policy: object("mine", func(s *policyv1alpha1.OffloadingPolicySpec) { fromConfigMap(s); s.Mode = policyv1alpha1.ModeDisabled }), stored: configMap("broken")},
		"a broken module is about to be stored":           {policy: object("elder", fromConfigMap), stored: configMap("broken"), reason: plan.ReasonModuleNotLoaded},
		"another ConfigMap is about to be stored":         {policy: object("elder", fromConfigMap), stored: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "longshore", Name: "other"}}},
		"both policies write the same field":              {policy: object("mine", fromConfigMap), reason: plan.ReasonOrderNeeded},
		"only one of them has an order":                   {policy: object("mine", func(s *policyv1alpha1.OffloadingPolicySpec) { fromConfigMap(s); s.Order = &one }), reason: plan.ReasonOrderNeeded},
		"one of them is in mode Shadow":                   {policy: object("mine", func(s *policyv1alpha1.OffloadingPolicySpec) { fromConfigMap(s); s.Mode = policyv1alpha1.ModeShadow })},
	} {
		t.Run(name, func(t *testing.T) {
			verdict, err := r.source.Judge(t.Context(), tc.policy, tc.stored)
			require.NoError(t, err)
			assert.Equal(t, tc.reason, verdict.Reason)
			assert.Equal(t, tc.reason != "", verdict.Denial != "", verdict.Denial)
			assert.Empty(t, verdict.Warnings)
		})
	}
	assert.Equal(t, []string{"default-podplacement", "elder"}, r.called(contract.PodMutation), "Judge binds nothing")
}

func TestAFailureOfTheAPIServerIsNotAVerdict(t *testing.T) {
	r := newRig(t, configMap("v1"))
	r.mustPass()
	r.fail = func(string, any) error { return errNoConnection }
	_, err := r.source.Judge(t.Context(), object("mine", fromConfigMap), nil)
	require.ErrorIs(t, err, errNoConnection)
}
