package policies

import (
	"context"
	"errors"
	"fmt"

	builtinpolicies "github.com/longshore-dev/longshore/builtin-policies"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/module"
)

// loadBuiltIn compiles the module of the built-in policies.
func loadBuiltIn(ctx context.Context, runtime *engine.Engine) (chain.Policy, error) {
	raw, err := builtinpolicies.Module()
	if err != nil {
		return nil, fmt.Errorf("reading the built-in policies: %w", err)
	}
	builtin, err := module.Load(ctx, runtime, raw, module.Options{Name: policyv1alpha1.BuiltInDefault, Limits: engine.BuiltIn()})
	if err != nil {
		return nil, fmt.Errorf("loading the built-in policies: %w", err)
	}
	return builtin, nil
}

// Precompile compiles the module of the built-in policies into a directory, for
// Options.PrecompiledDir of processes that run the same binary on a processor with the same
// features.
func Precompile(ctx context.Context, dir string) error {
	runtime, err := engine.New(ctx, engine.Options{CacheDir: dir})
	if err != nil {
		return fmt.Errorf("creating the policy engine: %w", err)
	}
	_, err = loadBuiltIn(ctx, runtime)
	return errors.Join(err, runtime.Close(ctx))
}
