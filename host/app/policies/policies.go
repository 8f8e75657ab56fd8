// Package policies composes the parts of a component that calls policies: the engine, the
// built-in module, and the source that binds modules according to the cluster's
// OffloadingPolicies.
package policies

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	builtinpolicies "github.com/longshore-dev/longshore/builtin-policies"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/module"
	"github.com/longshore-dev/longshore/host/policysource"
	"github.com/longshore-dev/longshore/host/policysource/attestation"
	"github.com/longshore-dev/longshore/host/policysource/modules"
	"github.com/longshore-dev/longshore/host/policysource/report"
)

// Options configures Policies.
type Options struct {
	// Identity of the component in its reports.
	Identity report.Identity
	// Elected is set if several replicas share the identity: the leader reports.
	Elected bool
	// CacheDir keeps compiled modules between starts; empty keeps none.
	CacheDir string
	// PrecompiledDir holds the built-in module as [Precompile] writes it; it may be absent.
	PrecompiledDir string
	// Compiler compiles the modules of policies outside of this process; nil compiles them
	// in it, without a limit, which is for tests.
	Compiler engine.Compiler
	// Stages are the extension points, with their moments, at which the component calls policies;
	// none means all. The modules of other policies are not kept in memory.
	Stages []chain.Stage
	// ModuleNamespaces are the namespaces whose ConfigMaps may hold modules; see [Namespaces].
	ModuleNamespaces []string
	// ReportKeys are the public keys of signed conformance reports: with any, modules without such a
	// report are not bound. See [attestation.ParseKeys].
	ReportKeys []string
	// Metrics of the policies; may be nil.
	Metrics *policysource.Metrics
	// Changed is called after decisions may have changed; it may be nil and must not block.
	Changed func()
	// Idle is how long the built-in module stays in memory after its last call; zero means a minute.
	// A call after a longer pause loads it again, with the compiled code of CacheDir or
	// PrecompiledDir. Without CacheDir the module stays.
	Idle time.Duration
}

// defaultIdle is long enough that pods which are created now and then seldom wait for the built-in
// module: loading it takes two tenths of a second.
const defaultIdle = time.Minute

// Namespaces lists Longshore's own namespace and the others from which the operator allows
// modules, each once.
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

// ValidateNamespaces returns an error for the first invalid name of a namespace.
func ValidateNamespaces(allowed []string) error {
	for _, namespace := range allowed {
		if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
			return fmt.Errorf("--policy-namespace: %q is not a valid namespace name: %s", namespace, strings.Join(problems, "; "))
		}
	}
	return nil
}

// ValidateReportKeys returns an error for the first key that is not the public one of a signature.
func ValidateReportKeys(keys []string) error {
	_, err := attestedBy(keys)
	return err
}

// attestedBy returns the check of signed reports; nil if there are no keys.
func attestedBy(keys []string) (func(context.Context, []byte, string) error, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	parsed, err := attestation.ParseKeys(keys)
	if err != nil {
		return nil, fmt.Errorf("--policy-report-key: %w", err)
	}
	return parsed.Verify, nil
}

// Policies are the engine and the policies of one component.
type Policies struct {
	engine *engine.Engine
	source *policysource.Source
}

// New compiles the built-in module and adds the source to the manager. It may take
// seconds without a compilation cache.
func New(ctx context.Context, mgr ctrl.Manager, options Options) (*Policies, error) {
	attested, err := attestedBy(options.ReportKeys)
	if err != nil {
		return nil, err
	}
	runtime, err := engine.New(ctx, engine.Options{
		CacheDir: options.CacheDir, PrecompiledDir: options.PrecompiledDir, Compiler: options.Compiler,
	})
	if err != nil {
		return nil, fmt.Errorf("creating the policy engine: %w", err)
	}
	p := &Policies{engine: runtime}
	builtin, err := p.builtIn(ctx, options)
	if err != nil {
		return nil, errors.Join(err, p.Close(ctx))
	}
	// Compiling the module takes many times the memory that it needs afterwards.
	debug.FreeOSMemory()
	p.source, err = policysource.New(policysource.Options{
		Identity: options.Identity, Elected: options.Elected, Client: mgr.GetClient(), Clock: clock.RealClock{},
		BuiltIn: builtin, BuiltInBytes: builtinpolicies.Module,
		Attested:         attested,
		Load:             p.load,
		Stages:           options.Stages,
		Close:            p.retire(ctx),
		Changed:          options.Changed,
		ModuleNamespaces: options.ModuleNamespaces,
		Metrics:          options.Metrics,
		Chain:            chainOptions(),
	})
	if err == nil {
		err = p.source.SetupWithManager(mgr)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("adding the policy source: %w", err), p.Close(ctx))
	}
	return p, nil
}

// builtIn returns the module of the built-in policies, which stays in memory or is loaded on demand.
func (p *Policies) builtIn(ctx context.Context, options Options) (chain.Policy, error) {
	policy, err := loadBuiltIn(ctx, p.engine)
	first, isModule := policy.(loadedModule)
	// Without the compiled code, loading it again would take seconds and many times its memory.
	if err != nil || options.CacheDir == "" || !isModule {
		return policy, err
	}
	return newOnDemand(ctx, clock.RealClock{}, cmp.Or(options.Idle, defaultIdle), first, func(ctx context.Context) (loadedModule, error) {
		policy, err := loadBuiltIn(ctx, p.engine)
		if err != nil {
			return nil, err
		}
		loaded, ok := policy.(loadedModule)
		if !ok {
			return nil, fmt.Errorf("built-in policies of type %T are not a module", policy)
		}
		return loaded, nil
	}), nil
}

func (p *Policies) load(ctx context.Context, name string, raw []byte, limits modules.Limits) (chain.Policy, error) {
	return module.Load(ctx, p.engine, raw, module.Options{Name: name, Limits: limits.Engine()})
}

// retire returns a function that closes a module after its last call.
func (p *Policies) retire(ctx context.Context) func(chain.Policy) {
	return func(policy chain.Policy) {
		if loaded, ok := policy.(*module.Module); ok {
			if err := loaded.Close(context.WithoutCancel(ctx)); err != nil {
				ctrl.LoggerFrom(ctx).Error(err, "Closing a policy module failed", "module", policy.Name())
			}
		}
	}
}

// Chains returns the chains of policies.
func (p *Policies) Chains() *chain.Chains { return p.source.Chains() }

// Judge checks whether a policy could be bound, before it is stored.
func (p *Policies) Judge(ctx context.Context, policy *policyv1alpha1.OffloadingPolicy, stored *corev1.ConfigMap) (policysource.Verdict, error) {
	verdict, err := p.source.Judge(ctx, policy, stored)
	if err != nil {
		return verdict, fmt.Errorf("judging policy %q: %w", policy.Name, err)
	}
	return verdict, nil
}

// Ready returns an error until the chains have the policies of the cluster.
func (p *Policies) Ready() error { return p.source.Ready() }

// Close closes the engine and all modules.
func (p *Policies) Close(ctx context.Context) error {
	if err := p.engine.Close(ctx); err != nil {
		return fmt.Errorf("closing the policy engine: %w", err)
	}
	return nil
}
