// Package policies composes what every component that asks policies needs: the engine,
// the built-in module in it, and the source that binds them as the cluster says.
package policies

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	builtinpolicies "github.com/longshore-dev/longshore/builtin-policies"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/kit/events"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/module"
	"github.com/longshore-dev/longshore/host/policysource"
)

// Options configures Policies.
type Options struct {
	// Component names the process in policy status.
	Component string
	// CacheDir keeps compiled modules between starts; empty keeps none.
	CacheDir string
	// Compiler compiles the modules of policies outside of this process; nil compiles them
	// in it, without a limit, which is for tests.
	Compiler engine.Compiler
	// ModuleNamespaces are the namespaces whose ConfigMaps may hold modules; see [Namespaces].
	ModuleNamespaces []string
	// Conditions makes this component write the policies' conditions.
	Conditions bool
	// Components tells who runs policies; nil lets anybody report. Of use with Conditions.
	Components func(ctx context.Context) (policysource.Components, error)
	// Metrics of the policies; may be nil.
	Metrics *policysource.Metrics
	// Changed is called after policies were bound anew; may be nil.
	Changed func()
}

// Namespaces lists Longshore's own namespace and those that the operator allows modules of
// policies to come from besides, each once.
func Namespaces(own string, allowed []string) []string {
	out := []string{own}
	for _, namespace := range allowed {
		if !slices.Contains(out, namespace) {
			out = append(out, namespace)
		}
	}
	return out
}

// CacheOf bounds a cache to these namespaces.
func CacheOf(namespaces []string) cache.ByObject {
	out := cache.ByObject{Namespaces: map[string]cache.Config{}}
	for _, namespace := range namespaces {
		out.Namespaces[namespace] = cache.Config{}
	}
	return out
}

// ValidateNamespaces says which of the allowed namespaces is no name of one.
func ValidateNamespaces(allowed []string) error {
	for _, namespace := range allowed {
		if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
			return fmt.Errorf("--policy-namespace: %q is no namespace name: %s", namespace, strings.Join(problems, "; "))
		}
	}
	return nil
}

// Policies is the policy side of one component.
type Policies struct {
	engine *engine.Engine
	source *policysource.Source
}

// New compiles the built-in module and adds the source to the manager. It may take
// seconds without a compilation cache.
func New(ctx context.Context, mgr ctrl.Manager, options Options) (*Policies, error) {
	runtime, err := engine.New(ctx, engine.Options{CacheDir: options.CacheDir, Compiler: options.Compiler})
	if err != nil {
		return nil, fmt.Errorf("composing the policy engine: %w", err)
	}
	p := &Policies{engine: runtime}
	builtin, err := loadBuiltIn(ctx, runtime)
	if err != nil {
		return nil, errors.Join(err, p.Close(ctx))
	}
	// Compiling the module takes many times the memory that it needs afterwards.
	debug.FreeOSMemory()
	p.source, err = policysource.New(policysource.Options{
		Component: options.Component, Client: mgr.GetClient(), Clock: clock.RealClock{},
		BuiltIns:       map[string]chain.Policy{policyv1alpha1.BuiltInDefault: builtin},
		BuiltInModules: map[string]func() ([]byte, error){policyv1alpha1.BuiltInDefault: builtinpolicies.Module},
		Load: func(ctx context.Context, name string, raw []byte, limits policysource.ModuleLimits) (chain.Policy, error) {
			return p.load(ctx, name, raw, limits)
		},
		Close:            p.retire(ctx),
		Changed:          options.Changed,
		ModuleNamespaces: options.ModuleNamespaces, Conditions: options.Conditions, Components: options.Components,
		Metrics: options.Metrics, Events: events.New(mgr, "longshore-policies"),
		Chain: chainOptions(),
	})
	if err == nil {
		err = p.source.SetupWithManager(mgr)
	}
	if err == nil {
		err = mgr.Add(trimmer{p.engine, clock.RealClock{}})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("composing the policy source: %w", err), p.Close(ctx))
	}
	return p, nil
}

func (p *Policies) load(ctx context.Context, name string, raw []byte, limits policysource.ModuleLimits) (chain.Policy, error) {
	return module.Load(ctx, p.engine, raw, module.Options{Name: name, Limits: engine.Limits{
		Fuel: uint64(limits.Fuel), MemoryBytes: uint64(limits.MemoryBytes),
	}})
}

// retire closes a module that is no longer bound.
func (p *Policies) retire(ctx context.Context) func(chain.Policy) {
	return func(policy chain.Policy) {
		if loaded, ok := policy.(*module.Module); ok {
			if err := loaded.Close(context.WithoutCancel(ctx)); err != nil {
				ctrl.LoggerFrom(ctx).Error(err, "Closing a retired policy failed", "module", policy.Name())
			}
		}
	}
}

// Chains decide.
func (p *Policies) Chains() *chain.Chains { return p.source.Chains() }

// Trim gives back memory that no policy needed since the last time, which is otherwise done
// once a minute.
func (p *Policies) Trim() { p.engine.Trim() }

// Report has the policies' status looked at again: a component may have gone.
func (p *Policies) Report() { p.source.Report() }

// Judge tells whether a policy could be bound, before it is stored.
func (p *Policies) Judge(ctx context.Context, policy *policyv1alpha1.OffloadingPolicy, stored *corev1.ConfigMap) (policysource.Verdict, error) {
	verdict, err := p.source.Judge(ctx, policy, stored)
	if err != nil {
		return verdict, fmt.Errorf("judging policy %q: %w", policy.Name, err)
	}
	return verdict, nil
}

// Ready returns an error until the operator's policies are known.
func (p *Policies) Ready() error { return p.source.Ready() }

// Close ends the engine and all modules.
func (p *Policies) Close(ctx context.Context) error {
	if err := p.engine.Close(ctx); err != nil {
		return fmt.Errorf("closing the policy engine: %w", err)
	}
	return nil
}
