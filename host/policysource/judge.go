package policysource

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policysource/plan"
)

// Verdict is the result of checking an OffloadingPolicy before it is stored.
type Verdict struct {
	// Reason is that of the [plan.Problem] that Denial or Warnings describe; empty if there is
	// none.
	Reason string
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
	problem := plan.CheckSpec(policy)
	if problem == nil && !plan.IsDisabled(policy) {
		var err error
		if problem, err = s.judge(ctx, policy, stored); err != nil {
			return Verdict{}, fmt.Errorf("judging policy %q: %w", policy.Name, err)
		}
	}
	switch {
	case problem == nil:
		return Verdict{}, nil
	case problem.Reason == plan.ReasonModuleNotFound || problem.Reason == plan.ReasonModuleIncomplete:
		return Verdict{Reason: problem.Reason, Warnings: []string{fmt.Sprintf("this version of policy %q is not used yet: %s", policy.Name, problem)}}, nil
	default:
		return Verdict{Reason: problem.Reason, Denial: problem.Error()}, nil
	}
}

func (s *Source) judge(ctx context.Context, policy *policyv1alpha1.OffloadingPolicy, stored *corev1.ConfigMap) (*plan.Problem, error) {
	module, problem, err := s.modules.Judge(ctx, policy, stored)
	if err != nil || module == nil {
		return problem, err
	}
	bindings, invalid := plan.Bindings(policy, module, s.namespaceLabels)
	if problem = cmp.Or(invalid, problem); problem == nil {
		problem = plan.Check(policy, bindings, s.bound(), s.options.BuiltIn)
	}
	return problem, ctx.Err() //nolint:wrapcheck // Judge adds the policy.
}
