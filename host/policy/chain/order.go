package chain

import "github.com/longshore-dev/longshore/sdk/contract"

// Stage is one evaluation of a sequence.
type Stage struct {
	Point  contract.Point
	Moment contract.Moment
}

// OffloadOrder returns the evaluations for an offloaded pod, in order. Each one gets the
// result of the previous one. The order is defined only here:
//
//   - MetadataFilter is first, because the anti-affinity preset selects by the labels of the
//     remote pods.
//   - The VirtualNode's patch comes before the preset, which adds to its affinity (T1).
//   - The operator's own policies get the complete pod.
//   - ResourceMutation is last for objects of all kinds.
func OffloadOrder() []Stage {
	return []Stage{
		{Point: contract.MetadataFilter},
		{Point: contract.OffloadingPatch},
		{Point: contract.AntiAffinityPreset},
		{Point: contract.PodMutation, Moment: contract.MomentOffload},
		{Point: contract.ResourceMutation},
	}
}
