package plan

import (
	"slices"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// defaultPoints maps the name of each implicit default binding to its extension point.
var defaultPoints = func() map[string]contract.Point {
	points := map[string]contract.Point{}
	for _, point := range contract.Points() {
		if name := point.Rules().Default; name != "" {
			points[name] = point
		}
	}
	return points
}()

// defaultOrder is the order of a default without spec.order. Policies with a negative order
// come before it, those with a positive order after it.
const defaultOrder = 0

// IsDefault reports whether a policy of this name replaces an implicit default.
func IsDefault(name string) bool {
	_, ok := defaultPoints[name]
	return ok
}

// Implicit returns the default bindings that no policy replaces, sorted by name. The keys of
// replaced are names of policies. Points that the built-in module does not answer have none.
func Implicit(builtIn chain.Policy, replaced map[string]bool) []chain.Binding {
	var names []string
	for name := range defaultPoints {
		if !replaced[name] && builtIn.Manifest().For(defaultPoints[name]) != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	bindings := make([]chain.Binding, len(names))
	for i, name := range names {
		order := defaultOrder
		bindings[i] = chain.Binding{Name: name, Point: defaultPoints[name], Order: &order, Policy: builtIn, BuiltIn: true}
	}
	return bindings
}

// orderOf returns the order of a policy; one that replaces a default has the default's
// order if it sets none.
func orderOf(policy *policyv1alpha1.OffloadingPolicy) *int {
	order := defaultOrder
	switch {
	case policy.Spec.Order != nil:
		order = int(*policy.Spec.Order)
	case !IsDefault(policy.Name):
		return nil
	}
	return &order
}
