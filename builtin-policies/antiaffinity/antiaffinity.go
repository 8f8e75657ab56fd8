// Package antiaffinity is the default policy of AntiAffinityPreset: it turns the
// anti-affinity annotations of the local pod into a podAntiAffinity of the remote
// draft (reference, section 3.4).
//
// It differs from the reference in three places. It adds to the podAntiAffinity and
// leaves the rest of the affinity alone. Entries of the label list are trimmed,
// and a list that selects no label changes nothing, where the reference would repel
// every pod of the namespace. As in the reference, the node name label is part
// of the selector, so pods on two virtual nodes of one provider are not spread
// against each other.
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
func Decide(facts contract.AntiAffinityPresetEntries) ([]contract.Operation, error) {
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
	if preset == presetHard {
		return []contract.Operation{contract.Ensure(requiredPath, term(selected))}, nil
	}
	return []contract.Operation{contract.Ensure(preferredPath, weighted(term(selected)))}, nil
}

// term is a pod affinity term that selects by labels: a contract.PodAffinityTerm whose
// labels are a list.
type term contract.Entries

// AppendJSON implements contract.Value.
func (t term) AppendJSON(b []byte) []byte {
	b = contract.Entries(t).AppendJSON(append(b, `{"labelSelector":{"matchLabels":`...))
	return append(b, `},"topologyKey":"`+topologyKey+`"}`...)
}

// weighted is a preferred term, of the weight 1.
type weighted term

// AppendJSON implements contract.Value.
func (w weighted) AppendJSON(b []byte) []byte {
	return append(term(w).AppendJSON(append(b, `{"weight":1,"podAffinityTerm":`...)), '}')
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
func selectLabels(labels contract.Entries, list string) contract.Entries {
	if list != "" {
		return listedLabels(labels, list)
	}
	selected := make(contract.Entries, 0, len(labels))
	for i := range labels {
		switch labels[i].Key {
		case "controller-revision-hash", "pod-template-hash", "statefulset.kubernetes.io/pod-name":
		default:
			selected = append(selected, labels[i])
		}
	}
	return selected
}

func listedLabels(labels contract.Entries, list string) contract.Entries {
	listed := make(contract.Entries, 0, min(strings.Count(list, ",")+1, len(labels)))
	for more := true; more; {
		var key string
		key, list, more = strings.Cut(list, ",")
		key = strings.TrimSpace(key)
		if value, ok := labels.Find(key); ok {
			listed = append(listed, contract.Entry{Key: key, Value: value})
		}
	}
	return listed.Sorted()
}
