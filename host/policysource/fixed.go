package policysource

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policysource/modules"
	"github.com/longshore-dev/longshore/host/policysource/plan"
)

// Fixed returns chains with the bindings that a component has after its start with these
// policies, and what became of each policy. It loads the modules one after the other; see
// modules.LoadNow for the options. The chains do not follow changes.
func Fixed(ctx context.Context, options modules.Options, chains chain.Options, policies []*policyv1alpha1.OffloadingPolicy) (*chain.Chains, []plan.Outcome, error) {
	in := plan.Input{Policies: policies, Modules: map[string]plan.Module{}, BuiltIn: options.BuiltIn}
	in.NamespaceLabels = func(ctx context.Context, name string) (map[string]string, error) {
		namespace := &corev1.Namespace{}
		if err := options.Client.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
			return nil, fmt.Errorf("reading the labels of namespace %q: %w", name, err)
		}
		return namespace.Labels, nil
	}
	for _, policy := range policies {
		state, err := modules.LoadNow(ctx, options, policy)
		if err != nil {
			return nil, nil, fmt.Errorf("loading the module of policy %q: %w", policy.Name, err)
		}
		in.Modules[policy.Name] = state
	}
	outcomes, bindings, err := plan.Make(&in)
	if err != nil {
		return nil, nil, fmt.Errorf("planning the bindings of policies: %w", err)
	}
	created := chain.New(chains)
	if err := created.Swap(bindings); err != nil {
		return nil, nil, fmt.Errorf("binding policies: %w", err)
	}
	return created, outcomes, nil
}
