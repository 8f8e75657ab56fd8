// Package antiaffinity is the default policy of AntiAffinityPreset: it turns the
// anti-affinity annotations of the local pod into a podAntiAffinity of the remote
// draft (reference, section 3.4).
//
// It differs from the reference in three places. It adds to the podAntiAffinity and
// leaves the rest of the affinity alone (T1). Entries of the label list are trimmed,
// and a list that selects no label changes nothing, where the reference would repel
// every pod of the namespace (T3). As in the reference, the node name label is part
// of the selector, so pods on two virtual nodes of one provider are not spread
// against each other (T2).
package antiaffinity

import (
	"strings"

	"github.com/longshore-dev/longshore/sdk/contract"
)

// Literals of the wire (reference, 3.4 and 7.3).
const (
	presetAnnotation = "liqo.io/anti-affinity-preset"
	labelsAnnotation = "liqo.io/anti-affinity-labels"

	presetPropagate = "propagate"
	presetSoft      = "soft"
	presetHard      = "hard"

	topologyKey = "kubernetes.io/hostname"
	softWeight  = 1

	podAntiAffinityPath = "/spec/affinity/podAntiAffinity"
	requiredPath        = podAntiAffinityPath + "/requiredDuringSchedulingIgnoredDuringExecution"
	preferredPath       = podAntiAffinityPath + "/preferredDuringSchedulingIgnoredDuringExecution"
)

// Manifest declares what the policy reads and writes.
func Manifest() contract.PointManifest {
	return contract.PointManifest{
		Point: contract.AntiAffinityPreset,
		Reads: []string{
			"/local/metadata/annotations/liqo.io~1anti-affinity-labels",
			"/local/metadata/annotations/liqo.io~1anti-affinity-preset",
			"/local/spec/affinity/podAntiAffinity",
			"/object/metadata/labels",
		},
		Writes: []contract.WriteRule{
			{Path: preferredPath, Verbs: []contract.Verb{contract.VerbEnsure}},
			{Path: requiredPath, Verbs: []contract.Verb{contract.VerbEnsure}},
		},
	}
}

// Decide answers the anti-affinity that the preset asks for. A preset that is
// unknown, also by its case, changes nothing.
func Decide(facts contract.AntiAffinityPresetFacts) ([]contract.Operation, error) {
	annotations := facts.Local.Metadata.Annotations
	preset := annotations[presetAnnotation]
	switch preset {
	case presetPropagate:
		return propagate(facts.Local.Spec.Affinity), nil
	case presetSoft, presetHard:
	default:
		return nil, nil
	}
	selected := selectLabels(facts.Object.Metadata.Labels, annotations[labelsAnnotation])
	if len(selected) == 0 {
		return nil, nil
	}
	term := contract.PodAffinityTerm{
		LabelSelector: &contract.LabelSelector{MatchLabels: selected},
		TopologyKey:   topologyKey,
	}
	if preset == presetHard {
		return []contract.Operation{contract.Ensure(requiredPath, term)}, nil
	}
	return []contract.Operation{contract.Ensure(preferredPath,
		contract.WeightedPodAffinityTerm{Weight: softWeight, PodAffinityTerm: term})}, nil
}

// propagate copies the local pod's anti-affinity terms as they are, its topology keys
// and namespaces included.
func propagate(affinity *contract.Affinity) []contract.Operation {
	if affinity == nil || affinity.PodAntiAffinity == nil {
		return nil
	}
	operations := make([]contract.Operation, 0, 2)
	if terms := affinity.PodAntiAffinity.Required; len(terms) > 0 {
		operations = append(operations, contract.Ensure(requiredPath, contract.Raws(terms)...))
	}
	if terms := affinity.PodAntiAffinity.Preferred; len(terms) > 0 {
		operations = append(operations, contract.Ensure(preferredPath, contract.Raws(terms)...))
	}
	return operations
}

// selectLabels picks the labels that make two pods the same workload: those that the
// list names, or without a list all but those that differ between its pods.
func selectLabels(labels map[string]string, list string) map[string]string {
	selected := make(map[string]string, len(labels))
	if list == "" {
		for key, value := range labels {
			switch key {
			case "controller-revision-hash", "pod-template-hash", "statefulset.kubernetes.io/pod-name":
			default:
				selected[key] = value
			}
		}
		return selected
	}
	for _, key := range strings.Split(list, ",") {
		key = strings.TrimSpace(key)
		if value, ok := labels[key]; ok {
			selected[key] = value
		}
	}
	return selected
}
