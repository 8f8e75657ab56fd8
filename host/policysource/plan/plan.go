// Package plan decides which bindings a component has. It is pure: the OffloadingPolicies,
// the loaded modules and the previous bindings go in; the next bindings, and the problem of
// each policy that cannot be used, come out.
//
// A policy with a problem never replaces bindings that work: the previous version stays.
// Without a previous one, a policy that was enforced before is held, and the others are
// left out. A core point without a policy of its default's name has the built-in default.
//
// A held policy fails for each object, as Kubernetes does it with webhooks without a backend and
// with ValidatingAdmissionPolicies without parameters.
package plan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
)

// Module is the state of the module that a policy names.
type Module struct {
	// ID identifies the module's bytes and its limits.
	ID string
	// Policy is the loaded module; nil if there is none.
	Policy chain.Policy
	// LoadingSince is when the load of the module began; zero unless it is being loaded.
	LoadingSince time.Time
	// Problem is why the module cannot be used with this policy; nil if it can.
	Problem *Problem
}

// Bound is what the chains have of a policy.
type Bound struct {
	// UID of the policy.
	UID types.UID
	// Version identifies the policy's spec and module: equal versions, equal bindings.
	Version string
	// Generation of the policy.
	Generation int64
	// Digest of the module.
	Digest string
	// Bindings, one for each extension point; none in mode Disabled.
	Bindings []chain.Binding
	// Shadow is set when the answers are not applied.
	Shadow bool
	// Fallback has the bindings of the latest version that has answered, for failure policy
	// LastGood, and FallbackGeneration is that of the policy then.
	Fallback           []chain.Binding
	FallbackGeneration int64
	// Held is set when no version of the policy can be used and it was enforced before.
	Held *Held
}

// Module returns the module of the bindings; nil if there are none.
func (b *Bound) Module() chain.Policy {
	if b == nil || len(b.Bindings) == 0 {
		return nil
	}
	return b.Bindings[0].Policy
}

// Input of [Make].
type Input struct {
	// Policies without those that are being deleted.
	Policies []*policyv1alpha1.OffloadingPolicy
	// Modules by the name of the policy. Policies that are disabled, or whose spec does not
	// pass [CheckSpec], need none.
	Modules map[string]Module
	// Previous is what the chains have, by the name of the policy.
	Previous map[string]Bound
	// Answered has the names of the policies whose previous version has given valid answers.
	Answered map[string]bool
	// BuiltIn is the module of the default policies.
	BuiltIn chain.Policy
	// NamespaceLabels is called by the bindings, not by [Make].
	NamespaceLabels NamespaceLabels
}

// Outcome is what becomes of one policy.
type Outcome struct {
	// Policy that this is about.
	Policy *policyv1alpha1.OffloadingPolicy
	// Bound is what decides: the current version, a previous one, or that the policy is held;
	// nil if nothing does.
	Bound *Bound
	// Problem is why the current version is not used; nil if it is, or is being loaded.
	Problem *Problem
	// LoadingSince is when the load of the current version's module began; zero unless it is
	// being loaded.
	LoadingSince time.Time
}

// IsLoading reports whether the module of the current version is being loaded.
func (o *Outcome) IsLoading() bool { return !o.LoadingSince.IsZero() }

// IsHeld reports whether the policy was enforced before and currently has no usable version.
func (o *Outcome) IsHeld() bool { return o.Bound != nil && o.Bound.Held != nil }

// PoliciesOf returns the modules that the bindings of these outcomes use.
func PoliciesOf(outcomes []Outcome) map[chain.Policy]bool {
	used := map[chain.Policy]bool{}
	for i := range outcomes {
		if b := outcomes[i].Bound; b != nil {
			for _, binding := range slices.Concat(b.Bindings, b.Fallback) {
				used[binding.Policy] = true
			}
		}
	}
	return used
}

// candidate is the outcome of a policy until the chains accept the bindings of all policies.
type candidate struct {
	Outcome

	previous *Bound
	// next is the current version; nil with a problem or while it is loading.
	next *Bound
}

// isChanged reports whether the choice differs from what the chains have.
func (c *candidate) isChanged() bool {
	return c.Bound != nil && (c.previous == nil || c.previous.Version != c.Bound.Version)
}

type planner struct {
	in         *Input
	candidates []*candidate
}

// Make plans the bindings of all policies, eldest first. The chains accept the bindings that
// it returns. When two policies conflict, the one that changed last is not used.
func Make(in *Input) ([]Outcome, []chain.Binding, error) {
	p := &planner{in: in}
	policies := slices.SortedFunc(slices.Values(in.Policies), func(a, b *policyv1alpha1.OffloadingPolicy) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	for _, policy := range policies {
		p.candidates = append(p.candidates, p.prepare(policy))
	}
	bindings, err := p.settle()
	if err != nil {
		return nil, nil, err
	}
	outcomes := make([]Outcome, len(p.candidates))
	for i, c := range p.candidates {
		outcomes[i] = c.Outcome
	}
	return outcomes, bindings, nil
}

// prepare builds the current version of a policy, or finds its problem, and makes the first
// choice.
func (p *planner) prepare(policy *policyv1alpha1.OffloadingPolicy) *candidate {
	c := &candidate{Outcome: Outcome{Policy: policy}}
	// A policy that is deleted and created again is enforced without a gap. Nothing else is taken
	// over from an earlier policy of the name.
	if b, ok := p.in.Previous[policy.Name]; ok && (b.UID == policy.UID || b.Enforces()) {
		c.previous = &b
	}
	module := p.in.Modules[policy.Name]
	version := fmt.Sprintf("%s %d %s", policy.UID, policy.Generation, module.ID)
	switch problem := cmp.Or(CheckSpec(policy), module.Problem); {
	case problem != nil:
		c.Problem = problem
	case IsDisabled(policy):
		c.next = &Bound{UID: policy.UID, Version: version, Generation: policy.Generation}
	case !module.LoadingSince.IsZero():
		c.LoadingSince = module.LoadingSince
	case c.previous != nil && c.previous.Version == version:
		c.next = c.previous
	default:
		p.build(c, module.Policy, version)
	}
	if c.Bound = c.next; c.next == nil {
		c.Bound = p.fallBack(c)
	}
	return c
}

func (p *planner) build(c *candidate, module chain.Policy, version string) {
	bindings, problem := Bindings(c.Policy, module, p.in.NamespaceLabels)
	if c.Problem = problem; problem != nil {
		return
	}
	next := &Bound{UID: c.Policy.UID, Version: version, Generation: c.Policy.Generation, Digest: module.Digest(), Bindings: bindings, Shadow: IsShadow(c.Policy)}
	c.next = next
	if c.Policy.Spec.FailurePolicy != policyv1alpha1.FailurePolicyLastGood || c.previous == nil {
		return
	}
	// The version to fall back to is the previous one if it has answered, else its own fallback.
	previous := c.previous
	next.Fallback, next.FallbackGeneration = previous.Fallback, previous.FallbackGeneration
	if previous.Enforces() && p.in.Answered[c.Policy.Name] && !hasSameAnswers(previous, next) {
		next.Fallback, next.FallbackGeneration = previous.Bindings, previous.Generation
	}
	for i := range next.Bindings {
		for j := range next.Fallback {
			if next.Fallback[j].Point == next.Bindings[i].Point {
				next.Bindings[i].Fallback = &next.Fallback[j]
			}
		}
	}
}

// hasSameAnswers reports whether two versions have the same module and settings.
func hasSameAnswers(a, b *Bound) bool {
	return a.Digest == b.Digest && string(a.Bindings[0].Settings) == string(b.Bindings[0].Settings)
}

// fallBack returns what decides while the current version cannot be used: the previous version
// if it is enforced; else a hold if the policy was enforced before; else the previous version.
func (p *planner) fallBack(c *candidate) *Bound {
	if c.previous != nil && c.previous.Enforces() {
		return c.previous
	}
	if held := p.hold(c); held != nil {
		return held
	}
	if c.previous != nil && c.previous.Held == nil {
		return c.previous
	}
	return nil
}

// retreat makes the next choice after the chains have refused one.
func (p *planner) retreat(c *candidate) {
	switch {
	case c.IsHeld():
		c.Bound = nil
	case c.isChanged():
		c.Bound = p.fallBack(c)
	default:
		c.Bound = p.hold(c)
	}
}

// settle changes choices until the chains accept all of them.
func (p *planner) settle() ([]chain.Binding, error) {
	// A candidate has at most three choices, and each refusal takes one away.
	for range 3*len(p.candidates) + 1 {
		bindings := p.proposal()
		err := chain.Check(bindings)
		if err == nil {
			return bindings, nil
		}
		name, problem := refusal(err)
		i := slices.IndexFunc(p.candidates, func(c *candidate) bool { return c.Policy.Name == name && c.Bound != nil })
		if i < 0 {
			return nil, fmt.Errorf("binding policies: %w", err)
		}
		refused := p.candidates[i]
		refused.Problem = cmp.Or(refused.Problem, problem)
		p.retreat(refused)
	}
	return nil, errors.New("the chains refuse every choice of bindings: this is a bug of Longshore")
}

// proposal lists the bindings: defaults, then unchanged ones, then changed ones. The chains
// attribute a conflict to the later binding, so it is never that of an unchanged policy with a
// changed one.
func (p *planner) proposal() []chain.Binding {
	replaced := map[string]bool{}
	var kept, changed []chain.Binding
	for _, c := range p.candidates {
		switch {
		case c.Bound == nil:
			continue
		case c.isChanged():
			changed = append(changed, c.Bound.Bindings...)
		default:
			kept = append(kept, c.Bound.Bindings...)
		}
		// A policy in mode Shadow does not replace the default of its name.
		replaced[c.Policy.Name] = !c.Bound.Shadow
	}
	return slices.Concat(Implicit(p.in.BuiltIn, replaced), kept, changed)
}

// refusal returns the name of the policy whose binding the chains refuse, and its problem.
func refusal(err error) (string, *Problem) {
	if conflict, ok := errors.AsType[*chain.ConflictError](err); ok {
		return conflict.Second, &Problem{Reason: ReasonOrderNeeded, Err: err}
	}
	if refused, ok := errors.AsType[*chain.BindingError](err); ok {
		return refused.Binding, &Problem{Reason: ReasonBindingRefused, Err: err}
	}
	return "", nil
}

// Check returns the problem that the chains would have with these bindings of a policy beside
// those of the others. Problems of other policies do not count.
func Check(policy *policyv1alpha1.OffloadingPolicy, bindings []chain.Binding, current map[string]Bound, builtIn chain.Policy) *Problem {
	replaced := map[string]bool{policy.Name: !IsShadow(policy)}
	var others []chain.Binding
	for name, b := range current {
		if name != policy.Name {
			replaced[name] = !b.Shadow
			others = append(others, b.Bindings...)
		}
	}
	err := chain.Check(slices.Concat(Implicit(builtIn, replaced), others, bindings))
	if name, problem := refusal(err); name == policy.Name {
		return problem
	}
	return nil
}
