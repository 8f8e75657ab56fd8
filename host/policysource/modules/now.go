package modules

import (
	"context"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policysource/plan"
)

// LoadNow returns the module that a policy names, loaded, or its problem, for callers that do not
// follow changes. Modules may be in ConfigMaps of all namespaces. Of the options it needs Client,
// BuiltIn, BuiltInBytes and Load. The caller closes the module, unless it is BuiltIn.
func LoadNow(ctx context.Context, options Options, policy *policyv1alpha1.OffloadingPolicy) (plan.Module, error) {
	if plan.CheckSpec(policy) != nil || plan.IsDisabled(policy) {
		return plan.Module{}, nil
	}
	if from := policy.Spec.Module.ConfigMap; from != nil {
		options.Namespaces = []string{from.Namespace}
	}
	m := &Modules{options: options}
	found, problem, err := m.find(ctx, policy, nil)
	if err != nil || problem != nil {
		return plan.Module{Problem: problem}, err
	}
	state := plan.Module{ID: found.key.content, Policy: found.builtIn}
	if state.Policy == nil {
		loaded, err := options.load(ctx, policy.Name, &found)
		if err != nil {
			state.Problem = notLoaded(err)
			return state, ctx.Err() //nolint:wrapcheck // The caller names the policy.
		}
		state.Policy = loaded
	}
	state.Problem = validate(ctx, policy, state.Policy)
	return state, ctx.Err() //nolint:wrapcheck // The caller names the policy.
}
