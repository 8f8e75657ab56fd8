// Package metadatafilter is the default policy of MetadataFilter: it decides which
// labels and annotations of an object are reflected.
//
// Two things say so. The VirtualNode's lists labelsNotReflected and
// annotationsNotReflected name exact keys (reference, sections 3.2 and 4.1); for them
// the policy does not read the object, since removing a key that is not there changes
// nothing, so one answer serves all objects of a virtual node. The settings of the
// policy hold rules with patterns, per kind, that drop, keep or rename (see [Rule]).
package metadatafilter

import (
	"errors"
	"slices"
	"strings"

	"github.com/longshore-dev/longshore/sdk/contract"
)

const (
	labelsPath      = "/metadata/labels"
	annotationsPath = "/metadata/annotations"

	// maxKeys is how many keys one remove may have. It is all that the host allows: an object
	// may have more than 100,000, and an answer 256 operations.
	maxKeys = 1024
)

// reservedPrefix and the keys of [Reserved] mark an object as reflected. Without them it
// would be unmanaged, and never be updated or deleted again. The host protects them,
// too. An operator who lists one in a VirtualNode gets the rest of the
// list; a rule of the settings that names one is refused.
const reservedPrefix = "offloading.liqo.io/"

// Reserved reports whether a key is reflection's own.
func Reserved(key string) bool {
	switch key {
	case "endpointslice.kubernetes.io/managed-by",
		"liqo.io/creator-user",
		"liqo.io/managed-by",
		"liqo.io/shadowPod",
		"longshore.dev/local-pod-uid",
		"policy.longshore.dev/decisions":
		return true
	}
	return strings.HasPrefix(key, reservedPrefix)
}

// Manifest declares what the policy reads and writes.
func Manifest() contract.PointManifest {
	return contract.PointManifest{
		Point: contract.MetadataFilter,
		Reads: []string{"/notReflected"},
		SettingsReads: []string{
			"/object/apiVersion",
			"/object/kind",
			"/object/metadata/annotations",
			"/object/metadata/labels",
		},
		Writes: []contract.WriteRule{
			{Path: annotationsPath, Verbs: []contract.Verb{contract.VerbRemove, contract.VerbMerge}},
			{Path: labelsPath, Verbs: []contract.Verb{contract.VerbRemove, contract.VerbMerge}},
		},
	}
}

// Decide answers which keys are dropped and which are renamed. Settings are JSON text,
// empty when there are none; they are checked as by [CheckSettings].
func Decide(facts contract.MetadataFilterEntries, settings []byte) ([]contract.Operation, error) {
	rules, err := parse(settings)
	if err != nil {
		return nil, err
	}
	if len(rules) > 0 && facts.Object.Kind == "" {
		return nil, errors.New("the rules of spec.settings cannot be applied without the object's kind, labels and annotations: " +
			"spec.allow.reads of this binding must not leave them out")
	}
	kind := ""
	if len(rules) > 0 {
		kind = facts.Object.APIVersion + "/" + facts.Object.Kind
	}
	metadata := &facts.Object.Metadata
	operations := filter(nil, annotationsPath, metadata.Annotations, facts.NotReflected.Annotations, matching(rules, kind, inAnnotations))
	return filter(operations, labelsPath, metadata.Labels, facts.NotReflected.Labels, matching(rules, kind, inLabels)), nil
}

// filter appends what becomes of one map: the keys of the list go, then the rules are
// applied in order, each to the outcome of the one before.
func filter(operations []contract.Operation, path string, have contract.Entries, list []string, rules []*Rule) []contract.Operation {
	dropped := droppable(list)
	var renamed contract.Entries
	if len(rules) > 0 {
		all := newEntries(have, dropped)
		for _, rule := range rules {
			rule.apply(all)
		}
		dropped, renamed = all.changes(dropped)
	}
	for len(dropped) > 0 {
		n := min(len(dropped), maxKeys)
		operations = append(operations, contract.Remove(path, dropped[:n]...))
		dropped = dropped[n:]
	}
	if len(renamed) > 0 {
		operations = append(operations, contract.Merge(path, renamed))
	}
	return operations
}

// droppable returns the keys of a list that may be dropped, sorted, each once. No key
// at all must not become a removal without keys, which drops the whole map.
func droppable(keys []string) []string {
	if len(keys) == 0 {
		return nil
	}
	kept := make([]string, 0, len(keys))
	for _, key := range keys {
		if key != "" && !Reserved(key) {
			kept = append(kept, key)
		}
	}
	slices.Sort(kept)
	return slices.Compact(kept)
}
