package offload

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

func TestSelectorsOfClusters(t *testing.T) {
	term := func(requirements ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: requirements}
	}
	for name, tc := range map[string]struct {
		selectors []string
		want      []corev1.NodeSelectorTerm
		problem   string
	}{
		"none":               {},
		"one":                {selectors: []string{"region=eu"}, want: []corev1.NodeSelectorTerm{term(corev1.NodeSelectorRequirement{Key: "region", Operator: "In", Values: []string{"eu"}})}},
		"all of one":         {selectors: []string{"a in (y,x),!b"}, want: []corev1.NodeSelectorTerm{term(corev1.NodeSelectorRequirement{Key: "a", Operator: "In", Values: []string{"x", "y"}}, corev1.NodeSelectorRequirement{Key: "b", Operator: "DoesNotExist"})}},
		"any of two":         {selectors: []string{"a", "b!=c"}, want: []corev1.NodeSelectorTerm{term(corev1.NodeSelectorRequirement{Key: "a", Operator: "Exists"}), term(corev1.NodeSelectorRequirement{Key: "b", Operator: "NotIn", Values: []string{"c"}})}},
		"a comparison":       {selectors: []string{"gpus>2"}, want: []corev1.NodeSelectorTerm{term(corev1.NodeSelectorRequirement{Key: "gpus", Operator: "Gt", Values: []string{"2"}})}},
		"one that is empty":  {selectors: []string{"region=eu", ""}},
		"one that is broken": {selectors: []string{"a in"}, problem: `invalid --selector "a in"`},
	} {
		t.Run(name, func(t *testing.T) {
			selector, err := clusterSelector(tc.selectors)
			if tc.problem != "" {
				require.ErrorContains(t, err, tc.problem)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.want, selector.NodeSelectorTerms)
		})
	}
}

func TestStrategies(t *testing.T) {
	for name, tc := range map[string]struct {
		pods, mapping, remote string
		namespaces            int
		want                  string
	}{
		"the defaults":             {"LocalAndRemote", "DefaultName", "", 2, ""},
		"a selected name":          {"Remote", "SelectedName", "shop", 1, ""},
		"a strategy that is none":  {"Everywhere", "DefaultName", "", 1, "it is one of [Local Remote LocalAndRemote]"},
		"a mapping that is none":   {"Local", "Other", "", 1, "it is one of [EnforceSameName DefaultName SelectedName]"},
		"a selected name missing":  {"Local", "SelectedName", "", 1, "needs --remote-namespace-name"},
		"a name that has no use":   {"Local", "DefaultName", "shop", 1, "needs --namespace-mapping-strategy SelectedName"},
		"one name for two of them": {"Local", "SelectedName", "shop", 2, "is for one namespace"},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkStrategies(&offloadingv1beta1.NamespaceOffloadingSpec{
				PodOffloadingStrategy: offloadingv1beta1.PodOffloadingStrategyType(tc.pods), RemoteNamespaceName: tc.remote,
				NamespaceMappingStrategy: offloadingv1beta1.NamespaceMappingStrategyType(tc.mapping),
			}, tc.namespaces)
			if tc.want == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, tc.want)
			}
		})
	}
}

func TestChangesOfAnOffloadedNamespace(t *testing.T) {
	existing := offloadingv1beta1.NamespaceOffloadingSpec{
		NamespaceMappingStrategy: "SelectedName", RemoteNamespaceName: "market", PodOffloadingStrategy: "Remote",
		ClusterSelector: corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "region", Operator: "Exists"}}}}},
	}
	asked := offloadingv1beta1.NamespaceOffloadingSpec{NamespaceMappingStrategy: "DefaultName", PodOffloadingStrategy: "LocalAndRemote"}
	with := func(change func(*offloadingv1beta1.NamespaceOffloadingSpec)) offloadingv1beta1.NamespaceOffloadingSpec {
		spec := existing.DeepCopy()
		change(spec)
		return *spec
	}
	for name, tc := range map[string]struct {
		given   []string
		want    offloadingv1beta1.NamespaceOffloadingSpec
		problem string
	}{
		"nothing is given":         {want: existing},
		"the strategy of its pods": {given: []string{"pod-offloading-strategy"}, want: with(func(s *offloadingv1beta1.NamespaceOffloadingSpec) { s.PodOffloadingStrategy = "LocalAndRemote" })},
		"all virtual nodes":        {given: []string{"selector"}, want: with(func(s *offloadingv1beta1.NamespaceOffloadingSpec) { s.ClusterSelector = corev1.NodeSelector{} })},
		"another mapping":          {given: []string{"namespace-mapping-strategy"}, problem: "run longshorectl unoffload namespace shop first"},
		"another remote name":      {given: []string{"remote-namespace-name"}, problem: "with the mapping SelectedName market"},
	} {
		t.Run(name, func(t *testing.T) {
			nso := object("shop", existing)
			err := change(nso, asked, func(flag string) bool { return slices.Contains(tc.given, flag) })
			if tc.problem != "" {
				require.ErrorContains(t, err, tc.problem)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.want, nso.Spec)
		})
	}
	leaving, now := object("shop", existing), metav1.Now()
	leaving.DeletionTimestamp = &now
	require.ErrorContains(t, change(leaving, existing, func(string) bool { return false }), "is being unoffloaded")
}

func TestWhatANamespaceWaitsFor(t *testing.T) {
	nso := object("shop", offloadingv1beta1.NamespaceOffloadingSpec{PodOffloadingStrategy: "LocalAndRemote"})
	nso.Generation = 2
	status := func(phase offloadingv1beta1.OffloadingPhaseType, ready offloadingv1beta1.RemoteNamespaceCondition) {
		nso.Status = offloadingv1beta1.NamespaceOffloadingStatus{OffloadingPhase: phase, ObservedGeneration: 2, RemoteNamespaceName: "shop-rome", RemoteNamespacesConditions: map[string]offloadingv1beta1.RemoteNamespaceConditions{
			"milan": {{Type: offloadingv1beta1.NamespaceOffloadingRequired, Status: corev1.ConditionTrue}, ready},
		}}
	}
	assert.Equal(t, "Longshore's manager to look at it", pending(nso))
	status("InProgress", offloadingv1beta1.RemoteNamespaceCondition{})
	assert.Equal(t, "the remote namespaces; the phase is InProgress", pending(nso))
	status("AllFailed", offloadingv1beta1.RemoteNamespaceCondition{Type: offloadingv1beta1.NamespaceReady, Status: corev1.ConditionFalse, Reason: "CreationLoopBackOff", Message: "It exists."})
	assert.Equal(t, "milan: CreationLoopBackOff: It exists.", pending(nso))
	status("Ready", offloadingv1beta1.RemoteNamespaceCondition{Type: offloadingv1beta1.NamespaceReady, Status: corev1.ConditionTrue})
	assert.Empty(t, pending(nso))

	var out bytes.Buffer
	require.NoError(t, printTable(&out, []*offloadingv1beta1.NamespaceOffloading{nso}, false))
	assert.Equal(t, "NAMESPACE  REMOTE NAME  PODS            PHASE  CLUSTERS\nshop       shop-rome    LocalAndRemote  Ready  milan\n", out.String())
}

func TestNamespacesAreNamedInOneWay(t *testing.T) {
	for name, tc := range map[string]struct {
		names    []string
		selector string
		valid    bool
	}{
		"names": {[]string{"shop"}, "", true}, "a selector": {nil, "team=shop", true}, "nothing": {nil, "", false},
		"both": {[]string{"shop"}, "team=shop", false}, "a broken selector": {nil, "team in", false},
	} {
		err := checkNames(tc.names, tc.selector)
		code, _ := output.ExitCode(err)
		assert.Equal(t, tc.valid, code == output.CodeDone, name)
	}
}
