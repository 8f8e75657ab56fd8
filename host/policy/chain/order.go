package chain

import "github.com/longshore-dev/longshore/sdk/contract"

// Stage is one question of a sequence.
type Stage struct {
	Point  contract.Point
	Moment contract.Moment
}

// OffloadOrder returns the questions asked while the remote pod is forged, in order;
// each sees the result of the one before. This is the only place that fixes it.
//
// Metadata is filtered first because the anti-affinity preset selects by the labels
// that the remote pods will carry. The VirtualNode's patch comes before the preset,
// which adds to its affinity (T1). The operator's own policies see the finished pod, and
// those about objects of any kind see it last, as they see all others.
func OffloadOrder() []Stage {
	return []Stage{
		{Point: contract.MetadataFilter},
		{Point: contract.OffloadingPatch},
		{Point: contract.AntiAffinityPreset},
		{Point: contract.PodMutation, Moment: contract.MomentOffload},
		{Point: contract.ResourceMutation},
	}
}
