// Package antiaffinitypreset makes a module answer the extension point AntiAffinityPreset:
// importing it adds the wasm export anti_affinity_preset, [Handle] registers the policy.
package antiaffinitypreset

import (
	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/guest"
	"github.com/longshore-dev/longshore/sdk/internal/codec"
	"github.com/longshore-dev/longshore/sdk/internal/serve"
)

// Request is the question: see [contract.AntiAffinityPresetFacts].
type Request = guest.Request[contract.AntiAffinityPresetFacts]

// Handle registers the policy that answers the point. Call it in an init function,
// once. An error of the policy is an error of the call; the failure policy of the binding
// then decides about the object.
//
//	antiaffinitypreset.Handle(func(r *antiaffinitypreset.Request) ([]contract.Operation, error) {
//		term := contract.PodAffinityTerm{
//			LabelSelector: &contract.LabelSelector{MatchLabels: r.Facts.Object.Metadata.Labels},
//			TopologyKey:   "topology.kubernetes.io/zone",
//		}
//		return []contract.Operation{contract.Ensure(
//			"/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution", term)}, nil
//	})
func Handle(policy func(*Request) ([]contract.Operation, error)) {
	serve.Operations(contract.AntiAffinityPreset, codec.AntiAffinityPresetFacts, policy)
}

// EntriesRequest is the question with labels as a list: see
// [contract.AntiAffinityPresetEntries].
type EntriesRequest = guest.Request[contract.AntiAffinityPresetEntries]

// HandleEntries is [Handle] for a policy that is fast on objects with very many labels.
func HandleEntries(policy func(*EntriesRequest) ([]contract.Operation, error)) {
	serve.Operations(contract.AntiAffinityPreset, codec.AntiAffinityPresetEntries, policy)
}
