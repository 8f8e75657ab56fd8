package policysource

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
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
// none. It is safe for concurrent use; policies are judged one at a time, since a module
// takes memory to compile.
//
// What can only be known later (a ConfigMap that is not there yet, parts of which some
// are of another version) is a warning: the status tells the rest. Errors are failures of ours and say nothing of the policy.
func (s *Source) Judge(ctx context.Context, policy *policyv1alpha1.OffloadingPolicy, stored *corev1.ConfigMap) (Verdict, error) {
	if bad := s.check(policy); bad != nil {
		return denied(bad), nil
	}
	if disabled(policy) {
		return Verdict{}, nil
	}
	select {
	case s.judging <- struct{}{}:
		defer func() { <-s.judging }()
	case <-ctx.Done():
		return Verdict{}, fmt.Errorf("judging policy %q: %w", policy.Name, ctx.Err())
	}
	module, done, bad, err := s.borrow(ctx, policy, stored)
	if err != nil {
		return Verdict{}, err
	}
	if bad != nil && (bad.reason == reasonModuleMissing || bad.reason == reasonIncomplete) {
		return Verdict{Warnings: []string{fmt.Sprintf("policy %q is not asked in this version yet: %s", policy.Name, bad)}}, nil
	}
	if bad != nil {
		return denied(bad), nil
	}
	defer done()
	bindings, bad := s.bindingsOf(policy, module)
	if bad == nil {
		bad = validate(ctx, policy, module, bindings)
	}
	if bad == nil {
		bad = s.compose(policy, bindings)
	}
	if ctx.Err() != nil {
		return Verdict{}, fmt.Errorf("judging policy %q: %w", policy.Name, ctx.Err())
	}
	if bad != nil {
		return denied(bad), nil
	}
	return Verdict{}, nil
}

func denied(bad *problem) Verdict { return Verdict{Denial: bad.Error()} }

// borrow loads the module of a policy for a while; done gives it back.
func (s *Source) borrow(ctx context.Context, policy *policyv1alpha1.OffloadingPolicy, stored *corev1.ConfigMap) (module chain.Policy, done func(), bad *problem, err error) {
	limits, bad := limitsOf(policy.Spec.Limits)
	if bad != nil {
		return nil, nil, bad, nil
	}
	var raw []byte
	if name := policy.Spec.Module.BuiltIn; name != "" {
		_, module, raw, bad, err = s.builtIn(name, limits)
	} else {
		raw, bad, err = s.read(ctx, policy.Spec.Module.ConfigMap, stored)
	}
	if module != nil || bad != nil || err != nil {
		return module, func() {}, bad, err
	}
	module, err = s.options.Load(ctx, policy.Name, raw, limits)
	if err != nil && ctx.Err() != nil {
		return nil, nil, nil, fmt.Errorf("loading the module of policy %q: %w", policy.Name, ctx.Err())
	}
	if err != nil {
		return nil, nil, &problem{reason: reasonModule, err: err}, nil
	}
	done = func() {
		if s.options.Close != nil {
			s.options.Close(module)
		}
	}
	return module, done, nil, nil
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
