// Package offload is longshorectl offload and unoffload namespace: which namespaces have a part
// in other clusters.
package offload

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// operators are those of a NodeSelector for those of a label selector.
var operators = map[selection.Operator]corev1.NodeSelectorOperator{
	selection.In: corev1.NodeSelectorOpIn, selection.Equals: corev1.NodeSelectorOpIn, selection.DoubleEquals: corev1.NodeSelectorOpIn,
	selection.NotIn: corev1.NodeSelectorOpNotIn, selection.NotEquals: corev1.NodeSelectorOpNotIn,
	selection.Exists: corev1.NodeSelectorOpExists, selection.DoesNotExist: corev1.NodeSelectorOpDoesNotExist,
	selection.GreaterThan: corev1.NodeSelectorOpGt, selection.LessThan: corev1.NodeSelectorOpLt,
}

// clusterSelector returns the NodeSelector that selects what any of the label selectors does. It has no terms if
// all virtual nodes are selected.
func clusterSelector(selectors []string) (corev1.NodeSelector, error) {
	var selector corev1.NodeSelector
	for _, text := range selectors {
		parsed, err := labels.Parse(text)
		if err != nil {
			return selector, fmt.Errorf("invalid --selector %q: %w", text, err)
		}
		requirements, _ := parsed.Requirements()
		if len(requirements) == 0 {
			return corev1.NodeSelector{}, nil
		}
		var term corev1.NodeSelectorTerm
		for _, requirement := range requirements {
			expression := corev1.NodeSelectorRequirement{Key: requirement.Key(), Operator: operators[requirement.Operator()]}
			if values := slices.Sorted(maps.Keys(requirement.Values())); len(values) > 0 {
				expression.Values = values
			}
			term.MatchExpressions = append(term.MatchExpressions, expression)
		}
		selector.NodeSelectorTerms = append(selector.NodeSelectorTerms, term)
	}
	return selector, nil
}

// checkStrategies returns what is wrong with a spec that the command line asks for.
func checkStrategies(spec *offloadingv1beta1.NamespaceOffloadingSpec, namespaces int) error {
	pods := []offloadingv1beta1.PodOffloadingStrategyType{
		offloadingv1beta1.LocalPodOffloadingStrategyType, offloadingv1beta1.RemotePodOffloadingStrategyType, offloadingv1beta1.LocalAndRemotePodOffloadingStrategyType,
	}
	mappings := []offloadingv1beta1.NamespaceMappingStrategyType{
		offloadingv1beta1.EnforceSameNameMappingStrategyType, offloadingv1beta1.DefaultNameMappingStrategyType, offloadingv1beta1.SelectedNameMappingStrategyType,
	}
	isSelected := spec.NamespaceMappingStrategy == offloadingv1beta1.SelectedNameMappingStrategyType
	switch {
	case !slices.Contains(pods, spec.PodOffloadingStrategy):
		return fmt.Errorf("invalid --pod-offloading-strategy %q: it is one of %v", spec.PodOffloadingStrategy, pods)
	case !slices.Contains(mappings, spec.NamespaceMappingStrategy):
		return fmt.Errorf("invalid --namespace-mapping-strategy %q: it is one of %v", spec.NamespaceMappingStrategy, mappings)
	case isSelected && spec.RemoteNamespaceName == "":
		return errors.New("--namespace-mapping-strategy SelectedName needs --remote-namespace-name")
	case !isSelected && spec.RemoteNamespaceName != "":
		return errors.New("--remote-namespace-name needs --namespace-mapping-strategy SelectedName")
	case isSelected && namespaces != 1:
		return errors.New("--remote-namespace-name is for one namespace: several namespaces would share it")
	default:
		return nil
	}
}

// object returns a new NamespaceOffloading.
func object(namespace string, spec offloadingv1beta1.NamespaceOffloadingSpec) *offloadingv1beta1.NamespaceOffloading {
	return &offloadingv1beta1.NamespaceOffloading{
		TypeMeta:   metav1.TypeMeta{APIVersion: offloadingv1beta1.GroupVersion.String(), Kind: "NamespaceOffloading"},
		ObjectMeta: metav1.ObjectMeta{Name: offloadingv1beta1.NamespaceOffloadingName, Namespace: namespace},
		Spec:       spec,
	}
}

// change sets in a NamespaceOffloading what flags are given for, and returns an error when another
// remote name is asked for: the remote namespace with its objects would stay behind.
func change(nso *offloadingv1beta1.NamespaceOffloading, spec offloadingv1beta1.NamespaceOffloadingSpec, isGiven func(flag string) bool) error {
	if !nso.DeletionTimestamp.IsZero() {
		return fmt.Errorf("namespace %s is being unoffloaded: wait, and run the command again", nso.Namespace)
	}
	if isGiven(flagMapping) && nso.Spec.NamespaceMappingStrategy != spec.NamespaceMappingStrategy || isGiven(flagRemoteName) && nso.Spec.RemoteNamespaceName != spec.RemoteNamespaceName {
		return fmt.Errorf("namespace %s is offloaded with the mapping %s: the remote name cannot change; run longshorectl unoffload namespace %[1]s first",
			nso.Namespace, strings.TrimSpace(string(nso.Spec.NamespaceMappingStrategy)+" "+nso.Spec.RemoteNamespaceName))
	}
	if isGiven(flagPods) {
		nso.Spec.PodOffloadingStrategy = spec.PodOffloadingStrategy
	}
	if isGiven(flagSelector) {
		nso.Spec.ClusterSelector = spec.ClusterSelector
	}
	return nil
}

// pending returns why a namespace is not offloaded yet, or "". That no cluster is selected is
// not waited for: one may join later.
func pending(nso *offloadingv1beta1.NamespaceOffloading) string {
	if nso.Status.ObservedGeneration < nso.Generation {
		return "Longshore's manager to look at it"
	}
	switch nso.Status.OffloadingPhase {
	case offloadingv1beta1.ReadyOffloadingPhaseType, offloadingv1beta1.NoClusterSelectedOffloadingPhaseType:
		return ""
	default:
		if problem := Problem(nso); problem != "" {
			return problem
		}
		return "the remote namespaces; the phase is " + string(nso.Status.OffloadingPhase)
	}
}

// Problem returns why the remote namespaces of a NamespaceOffloading are not ready, or "".
func Problem(nso *offloadingv1beta1.NamespaceOffloading) string {
	var problems []string
	for _, cluster := range slices.Sorted(maps.Keys(nso.Status.RemoteNamespacesConditions)) {
		for _, c := range nso.Status.RemoteNamespacesConditions[cluster] {
			if c.Type == offloadingv1beta1.NamespaceReady && c.Status != corev1.ConditionTrue {
				problems = append(problems, strings.TrimSpace(fmt.Sprintf("%s: %s: %s", cluster, c.Reason, c.Message)))
			}
		}
	}
	return strings.Join(problems, "; ")
}

// Misplaced returns how many pods run where the strategy of a NamespaceOffloading does not permit it, and
// what to do, or "".
func Misplaced(nso *offloadingv1beta1.NamespaceOffloading) string {
	c := meta.FindStatusCondition(nso.Status.Conditions, offloadingv1beta1.PodsFollowStrategyCondition)
	if c == nil || c.Status != metav1.ConditionFalse {
		return ""
	}
	return c.Message
}

// clusters returns the clusters that a namespace is offloaded to.
func clusters(nso *offloadingv1beta1.NamespaceOffloading) []string {
	var names []string
	for _, cluster := range slices.Sorted(maps.Keys(nso.Status.RemoteNamespacesConditions)) {
		for _, c := range nso.Status.RemoteNamespacesConditions[cluster] {
			if c.Type == offloadingv1beta1.NamespaceOffloadingRequired && c.Status == corev1.ConditionTrue {
				names = append(names, cluster)
			}
		}
	}
	return names
}
