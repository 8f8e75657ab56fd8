// Package podplacement is the default policy of PodMutation: where a pod of an
// offloaded namespace may be scheduled, by the strategy of its NamespaceOffloading
// (reference, section 2.2).
//
// It reads neither the pod's affinity nor its tolerations: the host builds the
// product of node selector terms (matchFields are kept) and leaves out what is
// there already, so one answer serves all pods of a namespace.
package podplacement

import (
	"errors"
	"strconv"

	"github.com/longshore-dev/longshore/sdk/contract"
)

// Literals of the wire (reference, 1.3, 7.2 and 7.4).
const (
	strategyLocal          = "Local"
	strategyRemote         = "Remote"
	strategyLocalAndRemote = "LocalAndRemote"

	tolerationKey   = "virtual-node.liqo.io/not-allowed"
	nodeTypeKey     = "liqo.io/type"
	nodeTypeVirtual = "virtual-node"
)

// What does not depend on the pod is made once. None of it is ever written to.
var (
	tolerate = contract.Ensure("/spec/tolerations",
		contract.Toleration{Key: tolerationKey, Operator: "Exists", Effect: "NoExecute"})
	isVirtual  = contract.NodeSelectorRequirement{Key: nodeTypeKey, Operator: "In", Values: []string{nodeTypeVirtual}}
	notVirtual = contract.NodeSelectorTerm{
		MatchExpressions: []contract.NodeSelectorRequirement{{Key: nodeTypeKey, Operator: "NotIn", Values: []string{nodeTypeVirtual}}},
	}
)

// Manifest declares what the policy reads and writes.
func Manifest() contract.PointManifest {
	return contract.PointManifest{
		Point:   contract.PodMutation,
		Moments: []contract.Moment{contract.MomentAdmission},
		Reads: []string{
			"/object/spec/runtimeClassName",
			"/offloading/clusterSelector",
			"/offloading/podOffloadingStrategy",
			"/runtimeClassName",
		},
		Writes: []contract.WriteRule{
			{Path: "/spec/affinity/nodeAffinity", Verbs: []contract.Verb{contract.VerbRequire}},
			{Path: "/spec/tolerations", Verbs: []contract.Verb{contract.VerbEnsure}},
		},
	}
}

// Decide answers where the pod may run. A pod of the cluster's Liqo runtime class is
// left alone, because the RuntimeClass admission plugin has already placed it on
// virtual nodes. An unknown strategy is an error, after which the pod is refused.
func Decide(facts contract.PodMutationFacts) ([]contract.Operation, error) {
	if facts.Offloading == nil {
		return nil, errors.New("the namespace has no NamespaceOffloading: its pods must wait for one")
	}
	strategy := facts.Offloading.PodOffloadingStrategy
	if strategy == strategyLocal || isLiqoClass(facts) {
		return nil, nil
	}
	terms, err := requiredTerms(strategy, facts.Offloading.ClusterSelector.NodeSelectorTerms)
	if err != nil {
		return nil, err
	}
	if len(terms) == 0 {
		return []contract.Operation{tolerate}, nil
	}
	return []contract.Operation{tolerate, contract.Require("/spec/affinity/nodeAffinity", terms...)}, nil
}

func isLiqoClass(facts contract.PodMutationFacts) bool {
	class := facts.Object.Spec.RuntimeClassName
	return class != "" && class == facts.RuntimeClassName
}

// requiredTerms returns the node selector terms that the strategy imposes, none for
// "anywhere".
func requiredTerms(strategy string, selector []contract.NodeSelectorTerm) ([]contract.NodeSelectorTerm, error) {
	switch strategy {
	case strategyRemote:
		if len(selector) == 0 {
			selector = []contract.NodeSelectorTerm{{}}
		}
		return narrowed(selector), nil
	case strategyLocalAndRemote:
		if len(selector) == 0 {
			return nil, nil
		}
		terms := make([]contract.NodeSelectorTerm, 0, len(selector)+1)
		terms = append(terms, selector...)
		return append(terms, notVirtual), nil
	default:
		return nil, errors.New("unknown podOffloadingStrategy " + strconv.Quote(strategy) +
			": the NamespaceOffloading must have Local, Remote or LocalAndRemote")
	}
}

// narrowed returns the terms, each for virtual nodes only.
func narrowed(selector []contract.NodeSelectorTerm) []contract.NodeSelectorTerm {
	count := len(selector)
	for i := range selector {
		count += len(selector[i].MatchExpressions)
	}
	terms := make([]contract.NodeSelectorTerm, len(selector))
	// One list for all: an allocation takes a guest longer than a term.
	all := make([]contract.NodeSelectorRequirement, 0, count)
	for i := range selector {
		first := len(all)
		all = append(append(all, selector[i].MatchExpressions...), isVirtual)
		terms[i] = contract.NodeSelectorTerm{MatchExpressions: all[first:], MatchFields: selector[i].MatchFields}
	}
	return terms
}
