package policysource

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	policymodule "github.com/longshore-dev/longshore/host/policy/module"
)

// Verdict is what can be said of an OffloadingPolicy before it is stored.
type Verdict struct {
	// Denial says why it could never be bound as it is, and who must act; empty lets it
	// pass.
	Denial string
	// Warnings say what it still waits for.
	Warnings []string
}

// Judge finds out whether a policy could be bound, with the code that binds it, and
// leaves nothing behind: admission asks it, so that a bad policy is refused at the door.
// A ConfigMap that is about to be stored stands in for the one in the cluster; nil for
// none. It is safe for concurrent use; modules are loaded one at a time, since that takes
// memory, and what was found out is remembered for a while by content.
//
// What can only be known later (a ConfigMap that is not there yet, parts of which some
// are of another version) is a warning: the status tells the rest. Errors are failures of
// ours and say nothing of the policy.
func (s *Source) Judge(ctx context.Context, policy *policyv1alpha1.OffloadingPolicy, stored *corev1.ConfigMap) (Verdict, error) {
	if bad := s.check(policy); bad != nil {
		return Verdict{Denial: bad.Error()}, nil
	}
	if disabled(policy) {
		return Verdict{}, nil
	}
	key, module, raw, bad, err := s.find(ctx, policy, stored)
	if err != nil {
		return Verdict{}, err
	}
	if bad != nil && (bad.reason == reasonModuleMissing || bad.reason == reasonIncomplete) {
		return Verdict{Warnings: []string{fmt.Sprintf("policy %q is not asked in this version yet: %s", policy.Name, bad)}}, nil
	}
	if bad == nil {
		bad, err = s.judge(ctx, policy, key, module, raw)
	}
	if err != nil {
		return Verdict{}, fmt.Errorf("judging policy %q: %w", policy.Name, err)
	}
	if bad != nil {
		return Verdict{Denial: bad.Error()}, nil
	}
	return Verdict{}, nil
}

// judge finds out what is wrong with a policy whose module is at hand, or its bytes.
func (s *Source) judge(ctx context.Context, policy *policyv1alpha1.OffloadingPolicy, key moduleKey, module chain.Policy, raw []byte) (*problem, error) {
	var found assessment
	if module != nil {
		found = assess(ctx, policy, module)
	} else {
		var err error
		if found, err = s.assessment(ctx, policy, key, raw); err != nil || found.module == nil {
			return found.bad, err
		}
	}
	bindings, bad := s.bindingsOf(policy, found.module)
	if bad == nil {
		bad = found.bad
	}
	if bad == nil {
		bad = s.compose(policy, bindings)
	}
	return bad, ctx.Err() //nolint:wrapcheck // The caller says of what.
}

// assessment returns what is known of a policy's module, settings and points, else finds
// it out; one at a time.
func (s *Source) assessment(ctx context.Context, policy *policyv1alpha1.OffloadingPolicy, key moduleKey, raw []byte) (assessment, error) {
	content, err := assessmentKey(policy, key)
	if err != nil {
		return assessment{}, err
	}
	if known, ok := s.verdicts.get(content); ok {
		return known, nil
	}
	select {
	case s.judging <- struct{}{}:
		defer func() { <-s.judging }()
	case <-ctx.Done():
		return assessment{}, ctx.Err() //nolint:wrapcheck // The caller says of what.
	}
	// Who was waiting may have asked the same.
	if known, ok := s.verdicts.get(content); ok {
		return known, nil
	}
	loaded, err := s.options.Load(ctx, policy.Name, raw, key.limits)
	found := assessment{bad: &problem{reason: reasonModule, err: err}}
	if err == nil {
		found = assess(ctx, policy, loaded)
		found.module = &declared{name: loaded.Name(), digest: loaded.Digest(), manifest: loaded.Manifest()}
		s.close(loaded)
	}
	// Nobody waits for the answer any more, and it may be due to that. A good one is not, and
	// the next attempt has it.
	if ctx.Err() != nil && found.bad != nil {
		return assessment{}, ctx.Err() //nolint:wrapcheck // The caller says of what.
	}
	if !found.bad.lasting() {
		return assessment{}, fmt.Errorf("this says nothing of the policy, try again: %w", found.bad.err)
	}
	s.verdicts.put(content, found)
	return found, nil
}

// lasting tells whether a problem with a module or its settings is due to these, so that
// it would be the same at the next attempt. A load may also fail for want of memory.
func (p *problem) lasting() bool {
	return p == nil || p.reason != reasonModule && p.reason != reasonSettings || policymodule.AtFault(p.err)
}

// assess asks a module about the points and settings of a policy.
func assess(ctx context.Context, policy *policyv1alpha1.OffloadingPolicy, module chain.Policy) assessment {
	points, bad := pointsOf(policy, module.Manifest())
	if bad == nil {
		bad = validate(ctx, policy, module, points)
	}
	return assessment{module: module, bad: bad}
}

// compose tells whether the chains would take the bindings beside those of the other
// policies, as far as this component knows them.
func (s *Source) compose(policy *policyv1alpha1.OffloadingPolicy, bindings []chain.Binding) *problem {
	replaced := map[string]bool{policy.Name: !shadow(policy)}
	var others []chain.Binding
	if current := s.current.Load(); current != nil {
		for name, b := range *current {
			if name == policy.Name {
				continue
			}
			replaced[name] = !b.shadow
			others = append(others, b.bindings...)
		}
	}
	err := chain.Check(slices.Concat(s.implicit(replaced), others, bindings))
	var conflict *chain.ConflictError
	var refused *chain.BindingError
	switch {
	case errors.As(err, &conflict) && conflict.Second == policy.Name:
		return &problem{reason: reasonConflict, err: err}
	case errors.As(err, &refused) && refused.Binding == policy.Name:
		return &problem{reason: reasonRefused, err: err}
	default:
		// What is wrong with others is not this one's fault.
		return nil
	}
}
