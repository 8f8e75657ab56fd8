package chain

import (
	"slices"

	"github.com/longshore-dev/longshore/host/policy/operation"
	"github.com/longshore-dev/longshore/sdk/contract"
)

const (
	labelsPath      = "/metadata/labels"
	annotationsPath = "/metadata/annotations"
)

// objectFact is the fact that policies change.
const objectFact = "object"

// bound is the maximum that an extension point allows, whatever a manifest declares.
type bound struct {
	writes operation.Rules
	// facts are the members of the facts object at the point.
	facts []string
	// denies and skips report whether policies may deny or skip the object.
	denies, skips bool
}

// bounds of the extension points (docs/explanation/architecture.md).
var bounds = map[contract.Point]bound{
	contract.PodMutation: {
		writes: anyVerb(labelsPath, annotationsPath, "/spec"),
		facts:  []string{objectFact, "local", "offloading", "namespace", "request", "virtualNode", "runtimeClassName"},
		denies: true,
	},
	contract.OffloadingPatch: {
		writes: anyVerb("/spec/nodeSelector", "/spec/tolerations", "/spec/affinity", "/spec/runtimeClassName"),
		facts:  []string{objectFact, "local", "patch", "virtualNode"},
	},
	contract.AntiAffinityPreset: {
		writes: anyVerb("/spec/affinity/podAntiAffinity"),
		facts:  []string{objectFact, "local"},
	},
	contract.MetadataFilter: {
		writes: anyVerb(labelsPath, annotationsPath),
		facts:  []string{objectFact, "notReflected", "virtualNode"},
	},
	// [Input].Writes narrows this for each kind. Identity, ownership and status are never
	// writable (ADR 4).
	contract.ResourceMutation: {
		writes: anyVerb(labelsPath, annotationsPath, "/spec", "/data", "/binaryData"),
		facts:  []string{objectFact, "local", "virtualNode"},
		skips:  true,
	},
	// Metadata is not writable: the consumer owns it and keeps it up to date (ADR 66).
	contract.ShadowPodAdmission: {
		writes: anyVerb("/spec"),
		facts:  []string{objectFact, "tenant", "namespace", "request", "quota"},
		denies: true,
	},
	contract.ResourceSliceAdmission: {
		writes: anyVerb("/status/resources"),
		facts:  []string{objectFact, "tenant", "namespace", "defaults"},
		denies: true,
	},
}

// anyVerb allows every verb at the paths.
func anyVerb(paths ...string) operation.Rules {
	rules := make([]contract.WriteRule, len(paths))
	for i, path := range paths {
		rules[i] = contract.WriteRule{Path: path, Verbs: contract.Verbs()}
	}
	return operation.MustCompileRules(rules)
}

// hasFact reports whether a read begins with a fact of the point.
func (b bound) hasFact(path operation.Path) bool {
	return slices.Contains(b.facts, path.Steps()[0].Key)
}
