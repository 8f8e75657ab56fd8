package view_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/policytest"
	"github.com/longshore-dev/longshore/host/policy/view"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// crossing is one way in which the writers of stage 4 meet in one pod.
type crossing struct {
	preset, patch, own string
}

func crossings() []crossing {
	var all []crossing
	for _, preset := range []string{"", "soft", "hard", "propagate"} {
		for _, patch := range []string{"", "required", "preferred", "both"} {
			for _, own := range []string{"", "places", "presets"} {
				all = append(all, crossing{preset, patch, own})
			}
		}
	}
	return all
}

func (x crossing) String() string {
	return fmt.Sprintf("preset %q, patch %q, own policy %q", x.preset, x.patch, x.own)
}

func preferred(key string) corev1.PreferredSchedulingTerm {
	return corev1.PreferredSchedulingTerm{Weight: 5, Preference: term(key)}
}

func antiTerm(topology string) corev1.PodAffinityTerm {
	return corev1.PodAffinityTerm{TopologyKey: topology, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"own": "x"}}}
}

func (x crossing) input() view.OffloadInput {
	local := localPod()
	local.Annotations = map[string]string{}
	if x.preset != "" {
		local.Annotations["liqo.io/anti-affinity-preset"] = x.preset
	}
	local.Spec.Affinity = &corev1.Affinity{
		NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term("consumer-only")}}},
		PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution:  []corev1.PodAffinityTerm{antiTerm("local-required")},
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 3, PodAffinityTerm: antiTerm("local-preferred")}},
		},
	}
	affinity := &corev1.NodeAffinity{}
	if x.patch == "required" || x.patch == "both" {
		affinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term("pool-a"), term("pool-b")}}
	}
	if x.patch == "preferred" || x.patch == "both" {
		affinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.PreferredSchedulingTerm{preferred("near")}
	}
	in := view.OffloadInput{
		Local: local, Draft: remote.PodDraft(local, "shop-rome", remote.Origin{HomeClusterID: "rome", ProviderClusterID: "milan", NodeName: "milan"}),
		VirtualNode: contract.VirtualNode{Name: "milan", ProviderClusterID: "milan", ConsumerClusterID: "rome"},
	}
	if x.patch != "" {
		in.Patch = &offloadingv1beta1.OffloadingPatch{
			NodeSelector: map[string]string{"region": "north"}, Tolerations: []corev1.Toleration{{Key: "pool", Operator: corev1.TolerationOpExists}},
			Affinity: &offloadingv1beta1.Affinity{NodeAffinity: affinity},
		}
	}
	return in
}

// policies are the operator's own, bound beside the defaults without any order: they
// only add, so none is needed.
func (x crossing) policies() []*policytest.Policy {
	requireTerms := contract.Require("/spec/affinity/nodeAffinity", contract.NodeSelectorTerm{
		MatchExpressions: []contract.NodeSelectorRequirement{{Key: "zone", Operator: "Exists"}},
	})
	tolerate := contract.Ensure("/spec/tolerations", contract.Toleration{Key: "pool", Operator: "Exists"}, contract.Toleration{Key: "zone", Operator: "Exists"})
	switch x.own {
	case "places":
		return []*policytest.Policy{answering("places", contract.PodMutation, []contract.WriteRule{
			{Path: "/spec/affinity/nodeAffinity", Verbs: []contract.Verb{contract.VerbRequire}},
			{Path: "/spec/tolerations", Verbs: []contract.Verb{contract.VerbEnsure}},
		}, requireTerms, tolerate)}
	case "presets":
		required := "/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution"
		return []*policytest.Policy{answering("presets", contract.AntiAffinityPreset,
			[]contract.WriteRule{{Path: required, Verbs: []contract.Verb{contract.VerbEnsure}}},
			contract.Ensure(required, contract.PodAffinityTerm{TopologyKey: "rack"}))}
	default:
		return nil
	}
}

// unordered binds the defaults and others with no order at all, in either sequence.
func unordered(t *testing.T, reverse bool, more ...*policytest.Policy) *chain.Chains {
	t.Helper()
	policy := defaults()
	var bindings []chain.Binding
	for _, point := range contract.CorePoints() {
		bindings = append(bindings, chain.Binding{Name: "m-default", Policy: policy, Point: point})
	}
	name := "a-first"
	if reverse {
		name = "z-last"
	}
	for _, p := range more {
		for _, declared := range p.Manifest().Points {
			bindings = append(bindings, chain.Binding{Name: name, Policy: p, Point: declared.Point})
		}
	}
	c := chain.New(chain.Options{ReservedKey: remote.ReservedKey})
	require.NoError(t, c.Swap(bindings), "what only adds needs no order")
	return c
}

// wants checks that the operations of each writer are in the spec, in any combination.
func (x crossing) wants(t *testing.T, spec *corev1.PodSpec) {
	t.Helper()
	affinity := spec.Affinity
	if affinity == nil {
		affinity = &corev1.Affinity{}
	}
	var requiredTerms []corev1.NodeSelectorTerm
	var nearTerms []corev1.PreferredSchedulingTerm
	if affinity.NodeAffinity != nil {
		nearTerms = affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
		if affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
			requiredTerms = affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		}
	}
	// The patch's pools and the policy's zone must both hold.
	patched, placed := x.patch == "required" || x.patch == "both", x.own == "places"
	for _, node := range [][]string{{}, {"zone"}, {"pool-a"}, {"pool-b"}, {"pool-a", "zone"}, {"pool-b", "zone"}, {"consumer-only"}} {
		has := map[string]bool{}
		for _, key := range node {
			has[key] = true
		}
		want := (!patched || has["pool-a"] || has["pool-b"]) && (!placed || has["zone"])
		assert.Equal(t, want, schedulable(requiredTerms, has), "a node with %v, terms %v", node, requiredTerms)
	}
	assert.Equal(t, x.patch == "preferred" || x.patch == "both", len(nearTerms) == 1, "T1: preferred terms of the patch survive the preset")

	var keys []string
	for _, toleration := range spec.Tolerations {
		keys = append(keys, toleration.Key)
	}
	wantKeys := []string{"own"}
	if x.patch != "" || placed {
		wantKeys = append(wantKeys, "pool")
	}
	if placed {
		wantKeys = append(wantKeys, "zone")
	}
	assert.ElementsMatch(t, wantKeys, keys, "each once")

	var required, soft []string
	if anti := affinity.PodAntiAffinity; anti != nil {
		for _, each := range anti.RequiredDuringSchedulingIgnoredDuringExecution {
			required = append(required, each.TopologyKey)
		}
		for _, each := range anti.PreferredDuringSchedulingIgnoredDuringExecution {
			soft = append(soft, each.PodAffinityTerm.TopologyKey)
		}
	}
	want := map[string][2][]string{
		"": {nil, nil}, "soft": {nil, {"kubernetes.io/hostname"}}, "hard": {{"kubernetes.io/hostname"}, nil},
		"propagate": {{"local-required"}, {"local-preferred"}},
	}[x.preset]
	if x.own == "presets" {
		want[0] = append(want[0], "rack")
	}
	assert.ElementsMatch(t, want[0], required)
	assert.ElementsMatch(t, want[1], soft)
}

// schedulable evaluates required terms whose operators are all Exists.
func schedulable(terms []corev1.NodeSelectorTerm, has map[string]bool) bool {
	if len(terms) == 0 {
		return true
	}
	for _, each := range terms {
		all := true
		for _, expression := range each.MatchExpressions {
			all = all && has[expression.Key]
		}
		if all {
			return true
		}
	}
	return false
}

// TestPoliciesOfStage4Compose crosses anti-affinity presets, the VirtualNode's patch and
// policies of the operator: all of them are applied, no order is needed, a second
// evaluation changes nothing, and the inputs are not altered.
func TestPoliciesOfStage4Compose(t *testing.T) {
	for _, x := range crossings() {
		t.Run(x.String(), func(t *testing.T) {
			var outcomes []*corev1.PodSpec
			for _, reverse := range []bool{false, true} {
				c := unordered(t, reverse, x.policies()...)
				in := x.input()
				before := text(t, []any{in.Local, in.Draft, in.Patch})
				result, err := view.OffloadPod(t.Context(), c, in)
				require.NoError(t, err)
				assert.Equal(t, before, text(t, []any{in.Local, in.Draft, in.Patch}), "the input is not altered")
				x.wants(t, &result.ShadowPod.Spec.Pod)
				outcomes = append(outcomes, &result.ShadowPod.Spec.Pod)

				in.Draft = result.ShadowPod
				again, err := view.OffloadPod(t.Context(), c, in)
				require.NoError(t, err)
				assert.False(t, again.Changed, "asking twice is asking once: terms that are there already are absorbed")
				assert.Equal(t, text(t, result.ShadowPod), text(t, again.ShadowPod))
			}
			x.wants(t, outcomes[1])
		})
	}
}

// Terms that were multiplied by one writer are absorbed when it asks again after
// another one has multiplied them once more.
func TestImpliedTermsAreAbsorbed(t *testing.T) {
	x := crossing{patch: "required", own: "places"}
	in := x.input()
	c := unordered(t, false, x.policies()...)
	result, err := view.OffloadPod(t.Context(), c, in)
	require.NoError(t, err)
	crossed := result.ShadowPod.Spec.Pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	require.Len(t, crossed, 2, "two pools, one zone")
	for _, each := range crossed {
		assert.Len(t, each.MatchExpressions, 2)
	}

	// A VirtualNode that gains a pool: the product grows by what is new, and by no more.
	in.Draft = result.ShadowPod
	in.Patch.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms = []corev1.NodeSelectorTerm{term("pool-a"), term("pool-b"), term("pool-c")}
	again, err := view.OffloadPod(t.Context(), c, in)
	require.NoError(t, err)
	assert.False(t, again.Changed, "each term already demands one of the alternatives")
}

// At admission, placement is applied twice to the pod of its owner.
func TestPlacementComposesWithTermsOfThePod(t *testing.T) {
	for _, strategy := range []offloadingv1beta1.PodOffloadingStrategyType{
		offloadingv1beta1.RemotePodOffloadingStrategyType, offloadingv1beta1.LocalAndRemotePodOffloadingStrategyType,
	} {
		t.Run(string(strategy), func(t *testing.T) {
			pinned := corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n1"}}}}
			in := admissionInput()
			in.Offloading.PodOffloadingStrategy = strategy
			in.Offloading.ClusterSelector = corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term("eu"), term("us")}}
			in.Pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution:  &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term("ssd"), pinned}},
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{preferred("near")},
			}}
			c := unordered(t, true, crossing{own: "places"}.policies()...)
			result, err := view.AdmitPod(t.Context(), c, in)
			require.NoError(t, err)
			affinity := result.Pod.Spec.Affinity.NodeAffinity
			assert.Equal(t, []corev1.PreferredSchedulingTerm{preferred("near")}, affinity.PreferredDuringSchedulingIgnoredDuringExecution)
			terms := affinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
			alternatives := map[offloadingv1beta1.PodOffloadingStrategyType]int{
				offloadingv1beta1.RemotePodOffloadingStrategyType: 2, offloadingv1beta1.LocalAndRemotePodOffloadingStrategyType: 3,
			}[strategy]
			require.Len(t, terms, 2*alternatives, "the owner's two terms times the strategy's, and the policy's zone in each")
			fields := 0
			for _, each := range terms {
				fields += len(each.MatchFields)
				assert.Contains(t, each.MatchExpressions, corev1.NodeSelectorRequirement{Key: "zone", Operator: corev1.NodeSelectorOpExists})
			}
			assert.Equal(t, alternatives, fields, "T4: matchFields survive")

			in.Pod = result.Pod
			again, err := view.AdmitPod(t.Context(), c, in)
			require.NoError(t, err)
			assert.False(t, again.Changed, "the webhook is idempotent, also for crossed terms")
		})
	}
}

// Through the chain, the preset selects among the labels that are left.
func TestPresetsSelectByReflectedLabels(t *testing.T) {
	for name, tc := range map[string]struct {
		list string
		drop []string
		want map[string]string
	}{
		"all labels but those that differ": {"", nil, map[string]string{"app": "web", "internal": "x", "offloading.liqo.io/nodename": "milan"}},
		"a removed label is not selected":  {"", []string{"internal"}, map[string]string{"app": "web", "offloading.liqo.io/nodename": "milan"}},
		"a trimmed list":                   {" app , internal ", nil, map[string]string{"app": "web", "internal": "x"}},
		"a list of removed labels":         {"internal", []string{"internal"}, nil},
		"a list without existing labels":   {"tier", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := chains(t)
			x := crossing{preset: "hard", patch: "required"}
			in := x.input()
			in.Local.Annotations["liqo.io/anti-affinity-labels"] = tc.list
			in.Patch.LabelsNotReflected = tc.drop
			result, err := view.OffloadPod(t.Context(), c, in)
			require.NoError(t, err)
			affinity := result.ShadowPod.Spec.Pod.Affinity
			require.NotNil(t, affinity.NodeAffinity, "T1")
			if tc.want == nil {
				assert.Nil(t, affinity.PodAntiAffinity, "T3: an empty selector would repel the whole namespace")
				return
			}
			assert.Equal(t, tc.want, affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector.MatchLabels)
		})
	}
}
