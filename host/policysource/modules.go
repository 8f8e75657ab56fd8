package policysource

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	policymodule "github.com/longshore-dev/longshore/host/policy/module"
	"github.com/longshore-dev/longshore/host/policysource/loading"
	"github.com/longshore-dev/longshore/host/policysource/plan"
	"github.com/longshore-dev/longshore/sdk/contract"
)

const (
	// maxLoads is how many modules are loaded at a time: compiling a module takes a processor
	// and, for a while, many times the memory that the module needs afterwards.
	maxLoads = 2
	// loadPatience is how long a load takes before it is reported.
	loadPatience = time.Second
	// loadRetry is the delay before a load is repeated that failed for a reason outside the
	// module, for example a lack of memory.
	loadRetry = time.Minute
)

// moduleKey identifies a loaded module by its content, or built-in name, and its limits.
type moduleKey struct {
	content string
	limits  ModuleLimits
}

// module is a module that is loaded, cannot be loaded, or is being loaded. Policies with the
// same key share it.
type module struct {
	policy chain.Policy
	err    error
	// load is in progress; nil when it has ended.
	load *loading.Load[chain.Policy]
	// began is when the load began, retryAt when it is repeated; zero for never.
	began, retryAt time.Time
	// isBound is set once the chains have had the module: they report when it can be closed.
	isBound bool
}

// checkedSettings is the result of a module's check of the settings of a policy.
type checkedSettings struct {
	version string
	problem *plan.Problem
}

// settingsValidator is a module that can check its settings for some extension points.
type settingsValidator interface {
	ValidateSettings(ctx context.Context, settings json.RawMessage, points ...contract.Point) error
}

// moduleOf returns the state of the module that a policy names, and when its load began, if it
// is being loaded. An error is temporary.
func (s *Source) moduleOf(ctx context.Context, policy *policyv1alpha1.OffloadingPolicy) (moduleKey, plan.Module, time.Time, error) {
	if plan.CheckSpec(policy) != nil || plan.IsDisabled(policy) {
		return moduleKey{}, plan.Module{}, time.Time{}, nil
	}
	key, loaded, raw, problem, err := s.find(ctx, policy, nil)
	if err != nil {
		return key, plan.Module{}, time.Time{}, err
	}
	var began time.Time
	if problem == nil && loaded == nil {
		loaded, began, problem = s.load(ctx, policy.Name, key, raw)
	}
	if problem == nil && loaded != nil {
		problem = s.checkSettings(ctx, policy, key, loaded)
	}
	return key, plan.Module{ID: key.id(), Policy: loaded, Loading: problem == nil && loaded == nil, Problem: problem}, began, nil
}

// id identifies the key in a version. Limits are part of the policy's generation.
func (k moduleKey) id() string { return k.content }

// checkSettings lets a module check the settings of a policy, once for each version.
func (s *Source) checkSettings(ctx context.Context, policy *policyv1alpha1.OffloadingPolicy, key moduleKey, loaded chain.Policy) *plan.Problem {
	version := fmt.Sprintf("%s %d %s", policy.UID, policy.Generation, key.content)
	known, ok := s.settings[policy.Name]
	if !ok || known.version != version {
		known = checkedSettings{version: version, problem: validate(ctx, policy, loaded)}
		if !isLasting(known.problem) {
			return known.problem
		}
		s.settings[policy.Name] = known
	}
	return known.problem
}

// validate lets a module check the settings of a policy, if it can, for the policy's points. It
// also checks that they may be missing.
func validate(ctx context.Context, policy *policyv1alpha1.OffloadingPolicy, loaded chain.Policy) *plan.Problem {
	points, problem := plan.Points(policy, loaded.Manifest())
	validator, ok := loaded.(settingsValidator)
	if problem != nil || !ok {
		return problem
	}
	var settings json.RawMessage
	if policy.Spec.Settings != nil {
		settings = policy.Spec.Settings.Raw
	}
	if err := validator.ValidateSettings(ctx, settings, points...); err != nil {
		return &plan.Problem{Reason: plan.ReasonInvalidSettings, Err: fmt.Errorf("spec.settings: %w", err)}
	}
	return nil
}

// isLasting reports whether a problem with a module or its settings would be the same at the
// next attempt. A load may also fail for a lack of memory.
func isLasting(p *plan.Problem) bool {
	return p == nil || p.Reason != plan.ReasonModuleNotLoaded && p.Reason != plan.ReasonInvalidSettings || policymodule.AtFault(p.Err)
}

// find returns the key of the module that a policy names, and the built-in module or the bytes
// to be loaded. The ConfigMap stored, if it is not nil, takes the place of the one in the
// cluster. An error is temporary, a problem is not.
func (s *Source) find(ctx context.Context, policy *policyv1alpha1.OffloadingPolicy, stored *corev1.ConfigMap) (key moduleKey, loaded chain.Policy, raw []byte, problem *plan.Problem, err error) {
	spec := &policy.Spec
	limits, problem := limitsOf(spec.Limits)
	if problem != nil {
		return moduleKey{}, nil, nil, problem, nil
	}
	if name := spec.Module.BuiltIn; name != "" {
		return s.builtIn(name, limits)
	}
	if raw, problem, err = s.read(ctx, spec.Module.ConfigMap, stored); problem != nil || err != nil {
		return moduleKey{}, nil, nil, problem, err
	}
	sum := sha256.Sum256(raw)
	return moduleKey{content: hex.EncodeToString(sum[:]), limits: limits}, nil, raw, nil, nil
}

// load returns the module of these bytes. If it is not loaded yet, load starts that in the
// background and returns when it began; the end of a load requeues all policies.
func (s *Source) load(ctx context.Context, name string, key moduleKey, raw []byte) (loaded chain.Policy, began time.Time, problem *plan.Problem) {
	m := s.modules[key]
	if m != nil && m.load == nil && !m.retryAt.IsZero() && !s.options.Clock.Now().Before(m.retryAt) {
		m = nil
	}
	if m == nil {
		m = &module{began: s.options.Clock.Now()}
		m.load = s.loads.Begin(ctx, func(ctx context.Context) (chain.Policy, error) { return s.options.Load(ctx, name, raw, key.limits) })
		s.modules[key] = m
	}
	if m.load != nil {
		policy, ended, err := m.load.Take()
		if !ended {
			return nil, m.began, nil
		}
		s.options.Metrics.loaded(name, err)
		m.policy, m.err, m.load = policy, err, nil
		if err != nil && !policymodule.AtFault(err) {
			m.retryAt = s.options.Clock.Now().Add(loadRetry)
			s.requeueAfter(reconcileAll, loadRetry)
		}
	}
	switch {
	case m.err == nil:
		return m.policy, time.Time{}, nil
	case m.retryAt.IsZero():
		return nil, time.Time{}, &plan.Problem{Reason: plan.ReasonModuleNotLoaded, Err: m.err}
	default:
		return nil, time.Time{}, &plan.Problem{Reason: plan.ReasonModuleNotLoaded, Err: fmt.Errorf("%w; the module is not the cause, and the load is repeated every minute: an operator should check the component", m.err)}
	}
}

// builtIn returns a built-in module, or its bytes if the limits need a module of their own.
func (s *Source) builtIn(name string, limits ModuleLimits) (key moduleKey, loaded chain.Policy, raw []byte, problem *plan.Problem, err error) {
	key = moduleKey{content: "built-in " + name, limits: limits}
	loaded = s.options.BuiltIns[name]
	if loaded == nil {
		return key, nil, nil, plan.Invalid("spec.module.builtIn %q is unknown: the operator must name %q", name, policyv1alpha1.BuiltInDefault), nil
	}
	if limits == (ModuleLimits{}) {
		return key, loaded, nil, nil, nil
	}
	open := s.options.BuiltInModules[name]
	if open == nil || s.options.Load == nil {
		problem = &plan.Problem{Reason: plan.ReasonNotSupported, Err: fmt.Errorf("component %s cannot limit built-in modules: the operator must remove spec.limits", s.options.Identity.Name)}
		return key, nil, nil, problem, nil
	}
	if raw, err = open(); err != nil {
		return key, nil, nil, nil, fmt.Errorf("reading built-in module %q: %w", name, err)
	}
	return key, nil, raw, nil, nil
}

// read returns the bytes of a module in one or several ConfigMaps.
func (s *Source) read(ctx context.Context, from *policyv1alpha1.ConfigMapSource, stored *corev1.ConfigMap) ([]byte, *plan.Problem, error) {
	if s.options.Load == nil {
		return nil, &plan.Problem{Reason: plan.ReasonNotSupported, Err: fmt.Errorf("component %s runs built-in modules only: the operator must set spec.module.builtIn", s.options.Identity.Name)}, nil
	}
	if !slices.Contains(s.options.ModuleNamespaces, from.Namespace) {
		return nil, plan.Invalid("spec.module.configMap.namespace %q: modules are loaded from %v only; an operator can allow more", from.Namespace, s.options.ModuleNamespaces), nil
	}
	pieces := make([][]byte, 0, 1+len(from.Parts))
	for _, name := range slices.Concat([]string{from.Name}, from.Parts) {
		piece, problem, err := s.piece(ctx, client.ObjectKey{Namespace: from.Namespace, Name: name}, from.Key, stored)
		if problem != nil || err != nil {
			return nil, problem, err
		}
		pieces = append(pieces, piece)
	}
	raw := pieces[0]
	if len(pieces) > 1 {
		raw = slices.Concat(pieces...)
	}
	return raw, checkDigest(from, raw), nil
}

// checkDigest returns a problem unless the bytes are those of the version that the spec names:
// parts of several versions may be stored while they are replaced.
func checkDigest(from *policyv1alpha1.ConfigMapSource, raw []byte) *plan.Problem {
	if from.Digest == "" && len(from.Parts) == 0 {
		return nil
	}
	sum := sha256.Sum256(raw)
	if digest := "sha256:" + hex.EncodeToString(sum[:]); digest != from.Digest {
		return &plan.Problem{Reason: plan.ReasonModuleIncomplete, Err: fmt.Errorf(
			"the module in ConfigMap %s/%s and its %d parts has digest %s, not spec.module.configMap.digest %q: the operator must store all parts of one version, in their order, and its digest",
			from.Namespace, from.Name, len(from.Parts), digest, from.Digest)}
	}
	return nil
}

// piece returns the bytes that one ConfigMap holds of a module.
func (s *Source) piece(ctx context.Context, name client.ObjectKey, key string, stored *corev1.ConfigMap) ([]byte, *plan.Problem, error) {
	configMap := stored
	if stored == nil || client.ObjectKeyFromObject(stored) != name {
		configMap = &corev1.ConfigMap{}
		err := s.options.Client.Get(ctx, name, configMap)
		if apierrors.IsNotFound(err) {
			return nil, &plan.Problem{Reason: plan.ReasonModuleNotFound, Missing: name, Err: fmt.Errorf("ConfigMap %s does not exist: the operator must create it with the module in binaryData", name)}, nil
		}
		if err != nil {
			return nil, nil, fmt.Errorf("reading ConfigMap %s: %w", name, err)
		}
	}
	if key == "" {
		if len(configMap.BinaryData) != 1 {
			return nil, plan.Invalid("spec.module.configMap.key: binaryData of ConfigMap %s has %d keys: the operator must name one", name, len(configMap.BinaryData)), nil
		}
		for key = range configMap.BinaryData {
		}
	}
	raw, ok := configMap.BinaryData[key]
	if _, text := configMap.Data[key]; text && !ok {
		return nil, &plan.Problem{Reason: plan.ReasonModuleNotLoaded, Err: fmt.Errorf("key %q of ConfigMap %s is text in data and not a WebAssembly module: its author must store a built module in binaryData", key, name)}, nil
	}
	if !ok {
		return nil, &plan.Problem{Reason: plan.ReasonModuleNotFound, Err: fmt.Errorf("binaryData of ConfigMap %s has no key %q: the operator must store the module there, or set spec.module.configMap.key to its key", name, key)}, nil
	}
	return raw, nil, nil
}

// limitsOf reads spec.limits. Limits above the host's bounds are a problem: the API server
// refuses them, but not in policies that were stored before the bounds existed.
func limitsOf(limits *policyv1alpha1.Limits) (ModuleLimits, *plan.Problem) {
	var out ModuleLimits
	if limits == nil {
		return out, nil
	}
	if limits.Fuel != nil {
		switch out.Fuel = *limits.Fuel; {
		case out.Fuel < 1:
			return out, plan.Invalid("spec.limits.fuel is %d: the operator must set a positive number", out.Fuel)
		case out.Fuel > contract.MaxFuel:
			return out, plan.Invalid("spec.limits.fuel is %d, more than the host's bound of %d: the operator must lower it, or remove it", out.Fuel, contract.MaxFuel)
		}
	}
	if limits.Memory != nil {
		switch out.MemoryBytes = limits.Memory.Value(); {
		case out.MemoryBytes < 1:
			return out, plan.Invalid("spec.limits.memory is %s: the operator must set a positive number of bytes", limits.Memory)
		case out.MemoryBytes > contract.MaxMemoryBytes:
			return out, plan.Invalid("spec.limits.memory is %s, more than the host's bound of %s: the operator must lower it, or remove it",
				limits.Memory, resource.NewQuantity(contract.MaxMemoryBytes, resource.BinarySI))
		}
	}
	return out, nil
}

// forget drops the modules that no policy names and no binding uses. The chains report when a
// module that they have had can be closed.
func (s *Source) forget(wanted map[moduleKey]bool) {
	used := map[chain.Policy]bool{}
	for _, b := range s.bound {
		for _, bindings := range [][]chain.Binding{b.Bindings, b.Fallback} {
			for i := range bindings {
				used[bindings[i].Policy] = true
			}
		}
	}
	for key, m := range s.modules {
		if m.policy != nil && used[m.policy] {
			m.isBound = true
			continue
		}
		if !m.isBound && wanted[key] {
			continue
		}
		delete(s.modules, key)
		if m.load != nil {
			s.loads.Drop(m.load)
		}
		if m.policy != nil && !m.isBound {
			s.close(m.policy)
		}
	}
}
