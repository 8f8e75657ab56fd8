package policysource

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policysource/plan"
)

// Verdict is the result of checking an OffloadingPolicy before it is stored.
type Verdict struct {
	// Denial says why the policy cannot be bound and who must act; empty admits it.
	Denial string
	// Warnings say what is missing before the policy can be bound.
	Warnings []string
}

// Judge checks whether a policy could be bound, with the code that binds it and without any
// effect, so that admission can refuse it. The ConfigMap stored, if it is not nil, takes the
// place of the one in the cluster. Judge is safe for concurrent use. It loads one module at a
// time, to bound memory, and remembers results by content for a while.
//
// A ConfigMap or a part of a module that does not exist yet is a warning. Errors are
// Longshore's own failures and say nothing about the policy.
func (s *Source) Judge(ctx context.Context, policy *policyv1alpha1.OffloadingPolicy, stored *corev1.ConfigMap) (Verdict, error) {
	if problem := plan.CheckSpec(policy); problem != nil {
		return Verdict{Denial: problem.Error()}, nil
	}
	if plan.IsDisabled(policy) {
		return Verdict{}, nil
	}
	key, loaded, raw, problem, err := s.find(ctx, policy, stored)
	if err != nil {
		return Verdict{}, err
	}
	if problem != nil && (problem.Reason == plan.ReasonModuleNotFound || problem.Reason == plan.ReasonModuleIncomplete) {
		return Verdict{Warnings: []string{fmt.Sprintf("this version of policy %q is not used yet: %s", policy.Name, problem)}}, nil
	}
	if problem == nil {
		problem, err = s.judge(ctx, policy, key, loaded, raw)
	}
	if err != nil {
		return Verdict{}, fmt.Errorf("judging policy %q: %w", policy.Name, err)
	}
	if problem != nil {
		return Verdict{Denial: problem.Error()}, nil
	}
	return Verdict{}, nil
}

// judge checks a policy with a module that is loaded, or whose bytes are given.
func (s *Source) judge(ctx context.Context, policy *policyv1alpha1.OffloadingPolicy, key moduleKey, loaded chain.Policy, raw []byte) (*plan.Problem, error) {
	found := assessment{module: loaded}
	if loaded != nil {
		found.problem = validate(ctx, policy, loaded)
	} else {
		var err error
		if found, err = s.assess(ctx, policy, key, raw); err != nil || found.module == nil {
			return found.problem, err
		}
	}
	bindings, problem := plan.Bindings(policy, found.module, s.namespaceLabels)
	if problem == nil {
		problem = found.problem
	}
	if problem == nil {
		var current map[string]plan.Bound
		if known := s.current.Load(); known != nil {
			current = *known
		}
		problem = plan.Check(policy, bindings, current, s.options.BuiltIns[policyv1alpha1.BuiltInDefault])
	}
	return problem, ctx.Err() //nolint:wrapcheck // Judge adds the policy.
}

// assess loads a module and lets it check the policy's settings, one module at a time, unless
// the result for the same content is known.
func (s *Source) assess(ctx context.Context, policy *policyv1alpha1.OffloadingPolicy, key moduleKey, raw []byte) (assessment, error) {
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
		return assessment{}, ctx.Err() //nolint:wrapcheck // Judge adds the policy.
	}
	// Another request may have had the same content.
	if known, ok := s.verdicts.get(content); ok {
		return known, nil
	}
	loaded, err := s.options.Load(ctx, policy.Name, raw, key.limits)
	found := assessment{problem: &plan.Problem{Reason: plan.ReasonModuleNotLoaded, Err: err}}
	if err == nil {
		found = assessment{
			module:  &plan.Absent{ModuleName: loaded.Name(), ModuleDigest: loaded.Digest(), Declared: loaded.Manifest()},
			problem: validate(ctx, policy, loaded),
		}
		s.close(loaded)
	}
	// After the end of the context a failure may be due to it; a success is kept for a retry.
	if ctx.Err() != nil && found.problem != nil {
		return assessment{}, ctx.Err() //nolint:wrapcheck // Judge adds the policy.
	}
	if !isLasting(found.problem) {
		return assessment{}, fmt.Errorf("the policy is not the cause, try again: %w", found.problem.Err)
	}
	s.verdicts.put(content, found)
	return found, nil
}
