package policysource

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// Reasons of conditions.
const (
	reasonLoaded        = "Loaded"
	reasonBound         = "Bound"
	reasonDisabled      = "Disabled"
	reasonPrevious      = "PreviousVersion"
	reasonFine          = "AsExpected"
	reasonInvalidSpec   = "InvalidSpec"
	reasonNotSupported  = "NotSupported"
	reasonModule        = "ModuleNotLoaded"
	reasonSettings      = "InvalidSettings"
	reasonRefused       = "BindingRefused"
	reasonConflict      = "OrderNeeded"
	reasonModuleMissing = "ModuleNotFound"
	reasonIncomplete    = "ModuleIncomplete"
	reasonShadow        = "Shadow"
	reasonQuarantined   = "Quarantined"
	reasonFellBack      = "FellBack"
	reasonRecovered     = "Recovered"
	reasonFailing       = "Failing"
	reasonUnavailable   = "Unavailable"
	reasonElsewhere     = "ComponentFails"
	reasonLoading       = "Loading"
	reasonCurrent       = "AllCurrent"
	reasonBehind        = "Behind"
)

// problem is why an object cannot be bound.
type problem struct {
	reason string
	err    error
	// loaded tells that the module itself is fine.
	loaded bool
	// missing is the ConfigMap that does not exist, if that is the problem.
	missing client.ObjectKey
}

func (p *problem) Error() string { return p.err.Error() }

// invalid is a spec that is none. Whoever wrote it must act: the format says that the
// operator must, and what.
func invalid(format string, arguments ...any) *problem {
	return &problem{reason: reasonInvalidSpec, err: fmt.Errorf(format, arguments...)}
}

// settingsValidator is a policy that can check its settings, as used at some points.
type settingsValidator interface {
	ValidateSettings(ctx context.Context, settings json.RawMessage, points ...contract.Point) error
}

// disabled tells whether the object is not to be asked.
func disabled(policy *policyv1alpha1.OffloadingPolicy) bool {
	return policy.Spec.Mode == policyv1alpha1.ModeDisabled
}

// shadow tells whether the object is asked without effect.
func shadow(policy *policyv1alpha1.OffloadingPolicy) bool {
	return policy.Spec.Mode == policyv1alpha1.ModeShadow
}

func modeOf(policy *policyv1alpha1.OffloadingPolicy) chain.Mode {
	if shadow(policy) {
		return chain.Shadow
	}
	return chain.Enforce
}

// bindingsOf turns an object into bindings, one for each of its points, or says what
// is wrong with it.
func (s *Source) bindingsOf(policy *policyv1alpha1.OffloadingPolicy, module chain.Policy) ([]chain.Binding, *problem) {
	spec := &policy.Spec
	points, bad := pointsOf(policy, module.Manifest())
	if bad != nil {
		return nil, bad
	}
	match, bad := newMatcher(spec.Match, s.options.Client)
	if bad != nil {
		return nil, bad
	}
	shared := chain.Binding{
		Name: policy.Name, Policy: module, Mode: modeOf(policy),
		FailurePolicy: chain.FailurePolicy(spec.FailurePolicy),
		Allow:         allowOf(spec.Allow), Order: orderOf(policy), BuiltIn: spec.Module.BuiltIn != "",
	}
	if match != nil {
		shared.Match = match
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

// orderOf returns the order of an object; one named like a default has that default's.
func orderOf(policy *policyv1alpha1.OffloadingPolicy) *int {
	order := defaultOrder
	_, isDefault := defaultPoints[policy.Name]
	switch {
	case policy.Spec.Order != nil:
		order = int(*policy.Spec.Order)
	case !isDefault:
		return nil
	}
	return &order
}

// check refuses what can be seen in the spec alone.
func (s *Source) check(policy *policyv1alpha1.OffloadingPolicy) *problem {
	spec := &policy.Spec
	switch spec.Mode {
	case "", policyv1alpha1.ModeEnforce, policyv1alpha1.ModeShadow, policyv1alpha1.ModeDisabled:
	default:
		return invalid("spec.mode %q is unknown: the operator must set Enforce, Shadow or Disabled", spec.Mode)
	}
	if (spec.Module.BuiltIn == "") == (spec.Module.ConfigMap == nil) {
		return invalid("spec.module: the operator must set exactly one of builtIn and configMap")
	}
	if point, isDefault := defaultPoints[policy.Name]; isDefault {
		for _, other := range spec.Points {
			if contract.Point(other) != point {
				return invalid("spec.points: a policy named %s replaces the default of %s and cannot answer %s: the operator must give it another name for that", policy.Name, point, other)
			}
		}
	}
	return nil
}

// pointsOf returns the points to bind: those of the spec; else the one that the name
// stands for; else all that the module answers.
func pointsOf(policy *policyv1alpha1.OffloadingPolicy, manifest *contract.Manifest) ([]contract.Point, *problem) {
	var points []contract.Point
	if len(policy.Spec.Points) == 0 {
		if point, isDefault := defaultPoints[policy.Name]; isDefault {
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
			return nil, invalid("spec.points: module %q does not answer %s, only %s: the operator must name points that it answers", manifest.Name, point, strings.Join(answers, ", "))
		}
		if !slices.Contains(points, point) {
			points = append(points, point)
		}
	}
	return points, nil
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
