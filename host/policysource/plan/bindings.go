package plan

import (
	"slices"
	"strings"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// IsDisabled reports whether a policy is in mode Disabled.
func IsDisabled(policy *policyv1alpha1.OffloadingPolicy) bool {
	return policy.Spec.Mode == policyv1alpha1.ModeDisabled
}

// IsShadow reports whether a policy is in mode Shadow.
func IsShadow(policy *policyv1alpha1.OffloadingPolicy) bool {
	return policy.Spec.Mode == policyv1alpha1.ModeShadow
}

// Ignores reports whether objects pass while the policy gives no answer.
func Ignores(policy *policyv1alpha1.OffloadingPolicy) bool {
	return policy.Spec.FailurePolicy == policyv1alpha1.FailurePolicyIgnore
}

// CheckSpec returns what is wrong with a spec, as far as the spec alone shows it.
func CheckSpec(policy *policyv1alpha1.OffloadingPolicy) *Problem {
	spec := &policy.Spec
	switch spec.Mode {
	case "", policyv1alpha1.ModeEnforce, policyv1alpha1.ModeShadow, policyv1alpha1.ModeDisabled:
	default:
		return Invalid("spec.mode %q is unknown: the operator must set Enforce, Shadow or Disabled", spec.Mode)
	}
	if (spec.Module.BuiltIn == "") == (spec.Module.ConfigMap == nil) {
		return Invalid("spec.module: the operator must set exactly one of builtIn and configMap")
	}
	if point, ok := defaultPoints[policy.Name]; ok {
		for _, other := range spec.Points {
			if contract.Point(other) != point {
				return Invalid("spec.points: policy %q replaces the default of %s and cannot answer %s: the operator must use another name for a policy at %s",
					policy.Name, point, other, other)
			}
		}
	}
	return nil
}

// Points returns the extension points of a policy: those of the spec; without any, the
// point of the default that it replaces; otherwise all that the module answers.
func Points(policy *policyv1alpha1.OffloadingPolicy, manifest *contract.Manifest) ([]contract.Point, *Problem) {
	var points []contract.Point
	if len(policy.Spec.Points) == 0 {
		if point, ok := defaultPoints[policy.Name]; ok {
			return []contract.Point{point}, nil
		}
		for i := range manifest.Points {
			points = append(points, manifest.Points[i].Point)
		}
		return points, nil
	}
	for _, named := range policy.Spec.Points {
		point := contract.Point(named)
		if manifest.For(point) == nil {
			answers := make([]string, len(manifest.Points))
			for i := range manifest.Points {
				answers[i] = string(manifest.Points[i].Point)
			}
			return nil, Invalid("spec.points: module %q does not answer %s, only %s: the operator must name points that it answers",
				manifest.Name, point, strings.Join(answers, ", "))
		}
		if !slices.Contains(points, point) {
			points = append(points, point)
		}
	}
	return points, nil
}

// Bindings returns the bindings of a policy with this module, one for each of its points.
func Bindings(policy *policyv1alpha1.OffloadingPolicy, module chain.Policy, namespaceLabels NamespaceLabels) ([]chain.Binding, *Problem) {
	spec := &policy.Spec
	points, problem := Points(policy, module.Manifest())
	if problem != nil {
		return nil, problem
	}
	match, problem := newMatcher(spec.Match, namespaceLabels)
	if problem != nil {
		return nil, problem
	}
	shared := chain.Binding{
		Name: policy.Name, Policy: module, Mode: chain.Enforce,
		FailurePolicy: chain.FailurePolicy(spec.FailurePolicy),
		Allow:         allowOf(spec.Allow), Order: orderOf(policy), Match: match, BuiltIn: spec.Module.BuiltIn != "",
	}
	if IsShadow(policy) {
		shared.Mode = chain.Shadow
	}
	if spec.Settings != nil {
		shared.Settings = spec.Settings.Raw
	}
	bindings := make([]chain.Binding, len(points))
	for i, point := range points {
		bindings[i] = shared
		bindings[i].Point = point
	}
	return bindings, nil
}

func allowOf(allow *policyv1alpha1.Allow) chain.Allow {
	if allow == nil {
		return chain.Allow{}
	}
	out := chain.Allow{Reads: allow.Reads}
	for _, rule := range allow.Writes {
		verbs := make([]contract.Verb, len(rule.Verbs))
		for i, verb := range rule.Verbs {
			verbs[i] = contract.Verb(verb)
		}
		out.Writes = append(out.Writes, contract.WriteRule{Path: rule.Path, Verbs: verbs, Keys: rule.Keys})
	}
	return out
}
