package policysource

import (
	"slices"

	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policysource/plan"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// callsModule returns a function that reports whether a module answers one of the stages; nil if
// there are none, which means all.
func callsModule(stages []chain.Stage) func(*contract.Manifest) bool {
	if len(stages) == 0 {
		return nil
	}
	return func(manifest *contract.Manifest) bool {
		return slices.ContainsFunc(stages, func(stage chain.Stage) bool {
			declared := manifest.For(stage.Point)
			return declared != nil && declared.At(stage.Moment)
		})
	}
}

// isNotCalled reports whether a policy has bindings and the component calls none of them.
func (s *Source) isNotCalled(o *plan.Outcome) bool {
	if len(s.options.Stages) == 0 || o.Bound == nil || len(o.Bound.Bindings) == 0 {
		return false
	}
	return !slices.ContainsFunc(o.Bound.Bindings, func(b chain.Binding) bool {
		return slices.ContainsFunc(s.options.Stages, func(stage chain.Stage) bool {
			return stage.Point == b.Point && b.Policy.Manifest().For(b.Point).At(stage.Moment)
		})
	})
}
