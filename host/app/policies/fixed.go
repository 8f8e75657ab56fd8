package policies

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	builtinpolicies "github.com/longshore-dev/longshore/builtin-policies"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policysource"
	"github.com/longshore-dev/longshore/host/policysource/modules"
	"github.com/longshore-dev/longshore/host/policysource/plan"
)

// Fixed are the policies of a component that do not follow changes, for commands that ask
// policies outside of a cluster.
type Fixed struct {
	*chain.Chains

	// Outcomes say what became of each OffloadingPolicy.
	Outcomes []plan.Outcome

	engine *engine.Engine
}

// NewFixed loads OffloadingPolicies as a component does at its start; without any, the
// built-in policies decide. The reader has the ConfigMaps with their modules.
func NewFixed(ctx context.Context, options engine.Options, reader client.Reader, offloadingPolicies []*policyv1alpha1.OffloadingPolicy) (*Fixed, error) {
	created, err := engine.New(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("creating the policy engine: %w", err)
	}
	p := &Policies{engine: created}
	fixed, err := p.fixed(ctx, reader, offloadingPolicies)
	if err != nil {
		return nil, errors.Join(err, p.Close(ctx))
	}
	return fixed, nil
}

func (p *Policies) fixed(ctx context.Context, reader client.Reader, offloadingPolicies []*policyv1alpha1.OffloadingPolicy) (*Fixed, error) {
	builtin, err := loadBuiltIn(ctx, p.engine)
	if err != nil {
		return nil, err
	}
	chains, outcomes, err := policysource.Fixed(ctx, modules.Options{
		Client: reader, BuiltIn: builtin, BuiltInBytes: builtinpolicies.Module, Load: p.load,
	}, chainOptions(), offloadingPolicies)
	if err != nil {
		return nil, err
	}
	return &Fixed{Chains: chains, Outcomes: outcomes, engine: p.engine}, nil
}

// Close closes the engine and all modules.
func (f *Fixed) Close(ctx context.Context) error {
	if err := f.engine.Close(ctx); err != nil {
		return fmt.Errorf("closing the policy engine: %w", err)
	}
	return nil
}
