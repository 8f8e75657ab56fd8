// Package metadatafilter is the default policy of MetadataFilter: it drops the labels
// and annotations that the VirtualNode excludes from reflection (reference, sections
// 3.2 and 4.1), exact keys only.
//
// It does not read the object: removing a key that is not there changes nothing, so
// one answer serves all objects of a virtual node.
package metadatafilter

import (
	"slices"
	"strings"

	"github.com/longshore-dev/longshore/sdk/contract"
)

const (
	labelsPath      = "/metadata/labels"
	annotationsPath = "/metadata/annotations"

	// reservedPrefix and reservedKeys are what marks an object as reflected: without
	// them the object would be nobody's, and never be updated or deleted again (T40).
	// The host protects them too; an operator who lists one gets the rest of the list.
	reservedPrefix = "offloading.liqo.io/"
)

var reservedKeys = []string{"liqo.io/managed-by", "endpointslice.kubernetes.io/managed-by"}

// Manifest declares what the policy reads and writes.
func Manifest() contract.PointManifest {
	return contract.PointManifest{
		Point: contract.MetadataFilter,
		Reads: []string{"/notReflected"},
		Writes: []contract.WriteRule{
			{Path: annotationsPath, Verbs: []contract.Verb{contract.VerbRemove}},
			{Path: labelsPath, Verbs: []contract.Verb{contract.VerbRemove}},
		},
	}
}

// Decide answers which keys are dropped.
func Decide(facts contract.MetadataFilterFacts) ([]contract.Operation, error) {
	var operations []contract.Operation
	if keys := droppable(facts.NotReflected.Annotations); len(keys) > 0 {
		operations = append(operations, contract.Remove(annotationsPath, keys...))
	}
	if keys := droppable(facts.NotReflected.Labels); len(keys) > 0 {
		operations = append(operations, contract.Remove(labelsPath, keys...))
	}
	return operations, nil
}

// droppable returns the keys that may be dropped, sorted, each once. No key at all
// must not become a removal without keys, which drops the whole map.
func droppable(keys []string) []string {
	kept := make([]string, 0, len(keys))
	for _, key := range keys {
		if key != "" && !strings.HasPrefix(key, reservedPrefix) && !slices.Contains(reservedKeys, key) {
			kept = append(kept, key)
		}
	}
	slices.Sort(kept)
	return slices.Compact(kept)
}
