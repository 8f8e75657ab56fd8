// Package offloadingpatch is the default policy of OffloadingPatch: it applies the
// spec.offloadingPatch of the VirtualNode to the remote draft and decides the remote
// runtime class (reference, section 3.4).
//
// It differs from the reference where terms of the patch meet terms that are there
// already: they must both hold, where the reference lets either do.
package offloadingpatch

import (
	"errors"

	"github.com/longshore-dev/longshore/sdk/contract"
)

const (
	// runtimeClassAnnotation of the local pod names the remote runtime class.
	runtimeClassAnnotation = "liqo.io/remote-runtime-class-name"
	// liqoRuntimeClass never reaches a provider: it is the class that sends a pod to a
	// virtual node. The reference compares with this literal, whatever class name the
	// cluster configured.
	liqoRuntimeClass = "liqo"

	nodeAffinityPath = "/spec/affinity/nodeAffinity"
	preferredPath    = nodeAffinityPath + "/preferredDuringSchedulingIgnoredDuringExecution"
	runtimeClassPath = "/spec/runtimeClassName"
	nodeSelectorPath = "/spec/nodeSelector"
	tolerationsPath  = "/spec/tolerations"
)

// Manifest declares what the policy reads and writes.
func Manifest() contract.PointManifest {
	return contract.PointManifest{
		Point: contract.OffloadingPatch,
		Reads: []string{
			"/local/metadata/annotations/liqo.io~1remote-runtime-class-name",
			"/local/spec/runtimeClassName",
			"/patch/affinity",
			"/patch/nodeSelector",
			"/patch/runtimeClassName",
			"/patch/tolerations",
		},
		Writes: []contract.WriteRule{
			{Path: nodeAffinityPath, Verbs: []contract.Verb{contract.VerbRequire}},
			{Path: preferredPath, Verbs: []contract.Verb{contract.VerbEnsure}},
			{Path: nodeSelectorPath, Verbs: []contract.Verb{contract.VerbMerge}},
			{Path: runtimeClassPath, Verbs: []contract.Verb{contract.VerbSet}},
			{Path: tolerationsPath, Verbs: []contract.Verb{contract.VerbEnsure}},
		},
	}
}

// most is how many operations there are at most.
const most = 5

// Decide answers what the patch changes in the draft.
func Decide(facts contract.OffloadingPatchFacts) ([]contract.Operation, error) {
	patch := facts.Patch
	if patch == nil {
		patch = &contract.Patch{}
	}
	operations := make([]contract.Operation, 0, most)
	if len(patch.NodeSelector) > 0 {
		operations = append(operations, contract.Merge(nodeSelectorPath, contract.StringMap(patch.NodeSelector)))
	}
	if len(patch.Tolerations) > 0 {
		operations = append(operations, contract.Ensure(tolerationsPath, contract.Raws(patch.Tolerations)...))
	}
	if patch.Affinity != nil && patch.Affinity.NodeAffinity != nil {
		var err error
		if operations, err = nodeAffinity(operations, patch.Affinity.NodeAffinity); err != nil {
			return nil, err
		}
	}
	if class := runtimeClass(&facts.Local, patch.RuntimeClassName); class != "" {
		operations = append(operations, contract.Set(runtimeClassPath, contract.String(class)))
	}
	return operations, nil
}

func nodeAffinity(operations []contract.Operation, affinity *contract.NodeAffinity) ([]contract.Operation, error) {
	if affinity.Required != nil {
		terms := affinity.Required.NodeSelectorTerms
		if len(terms) == 0 {
			return nil, errors.New("spec.offloadingPatch.affinity.nodeAffinity of the VirtualNode requires a node selector without terms, " +
				"which no node matches: add a term or remove the requirement")
		}
		operations = append(operations, contract.Require(nodeAffinityPath, terms...))
	}
	if len(affinity.Preferred) > 0 {
		operations = append(operations, contract.Ensure(preferredPath, contract.Raws(affinity.Preferred)...))
	}
	return operations, nil
}

// runtimeClass picks the remote class: the annotation of the local pod, whatever it
// says; else the local pod's class; else the patch's. The latter two do not count
// when they are the Liqo class. No class is "".
func runtimeClass(local *contract.Pod, patch string) string {
	if class := local.Metadata.Annotations[runtimeClassAnnotation]; class != "" {
		return class
	}
	if class := local.Spec.RuntimeClassName; class != "" && class != liqoRuntimeClass {
		return class
	}
	if patch != liqoRuntimeClass {
		return patch
	}
	return ""
}
