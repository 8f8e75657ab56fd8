package policysource

import (
	"slices"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// defaultPoints are the core points by the name of their implicit default binding
// (docs/explanation/architecture.md, 2.1).
var defaultPoints = map[string]contract.Point{
	"default-podplacement":    contract.PodMutation,
	"default-offloadingpatch": contract.OffloadingPatch,
	"default-antiaffinity":    contract.AntiAffinityPreset,
	"default-metadatafilter":  contract.MetadataFilter,
}

// defaultOrder is the order of a default, implicit or not, that says nothing: other
// policies come before it with a negative order and after it with a positive one.
const defaultOrder = 0

// implicit returns the default bindings that none of the names replaces, sorted.
func (s *Source) implicit(replaced map[string]bool) []chain.Binding {
	var names []string
	for name := range defaultPoints {
		if !replaced[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	bindings := make([]chain.Binding, len(names))
	for i, name := range names {
		order := defaultOrder
		bindings[i] = chain.Binding{
			Name: name, Point: defaultPoints[name], Order: &order,
			Policy: s.options.BuiltIns[policyv1alpha1.BuiltInDefault], BuiltIn: true,
		}
	}
	return bindings
}
