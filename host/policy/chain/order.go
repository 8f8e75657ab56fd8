package chain

import "github.com/longshore-dev/longshore/sdk/contract"

// Stage is one evaluation of a sequence.
type Stage struct {
	Point  contract.Point
	Moment contract.Moment
}

// OffloadOrder returns the evaluations for an offloaded pod, in order. Each one gets the
// result of the previous one. The contract has the order of its core points; ResourceMutation
// is last for objects of all kinds.
func OffloadOrder() []Stage {
	var stages []Stage
	for _, point := range append(contract.CorePoints(), contract.ResourceMutation) {
		stage := Stage{Point: point}
		if point == contract.PodMutation {
			stage.Moment = contract.MomentOffload
		}
		stages = append(stages, stage)
	}
	return stages
}
