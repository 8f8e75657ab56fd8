package policysource

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
)

// moduleKey tells loaded modules apart: by content and limits, or by built-in name.
type moduleKey struct {
	content string
	limits  ModuleLimits
}

// module is a loaded module, or why it cannot be loaded: the same bytes are not
// compiled again on every pass.
type module struct {
	policy chain.Policy
	err    error
	// bound tells that the chains have had it: they say when it may be closed.
	bound bool
}

// moduleOf returns the module of an object, loading it when its content is new.
// A temporary failure is returned as error, a lasting one as problem.
func (s *Source) moduleOf(ctx context.Context, policy *policyv1alpha1.OffloadingPolicy) (moduleKey, chain.Policy, *problem, error) {
	spec := &policy.Spec
	limits, bad := limitsOf(spec.Limits)
	if bad != nil {
		return moduleKey{}, nil, bad, nil
	}
	if name := spec.Module.BuiltIn; name != "" {
		return s.builtIn(name, limits)
	}
	raw, bad, err := s.read(ctx, spec.Module.ConfigMap, nil)
	if bad != nil || err != nil {
		return moduleKey{}, nil, bad, err
	}
	sum := sha256.Sum256(raw)
	key := moduleKey{content: hex.EncodeToString(sum[:]), limits: limits}
	loaded, ok := s.modules[key]
	if !ok {
		fresh, err := s.options.Load(ctx, policy.Name, raw, limits)
		if err != nil && ctx.Err() != nil {
			return key, nil, nil, fmt.Errorf("loading the module of policy %q: %w", policy.Name, ctx.Err())
		}
		s.options.Metrics.loaded(policy.Name, err)
		if loaded = (&module{policy: fresh, err: err}); err != nil {
			loaded.policy = nil // it may be a typed nil
		}
		s.modules[key] = loaded
	}
	if loaded.err != nil {
		return key, nil, &problem{reason: reasonModule, err: loaded.err}, nil
	}
	return key, loaded.policy, nil, nil
}

func (s *Source) builtIn(name string, limits ModuleLimits) (moduleKey, chain.Policy, *problem, error) {
	key := moduleKey{content: "built-in " + name}
	policy := s.options.BuiltIns[name]
	switch {
	case policy == nil:
		return key, nil, invalid("spec.module.builtIn %q is unknown, only %q is known", name, policyv1alpha1.BuiltInDefault), nil
	case limits != ModuleLimits{}:
		return key, nil, &problem{reason: reasonNotSupported, err: errors.New("spec.limits cannot be set for a built-in module: remove them")}, nil
	default:
		return key, policy, nil, nil
	}
}

// read returns the bytes of a module in a ConfigMap. One that is about to be stored
// stands in for the one in the cluster.
func (s *Source) read(ctx context.Context, from *policyv1alpha1.ConfigMapSource, stored *corev1.ConfigMap) ([]byte, *problem, error) {
	if s.options.Load == nil {
		return nil, &problem{reason: reasonNotSupported, err: fmt.Errorf("component %s runs built-in modules only", s.options.Component)}, nil
	}
	if !slices.Contains(s.options.ModuleNamespaces, from.Namespace) {
		return nil, invalid("spec.module.configMap.namespace %q: modules are loaded from %v only; an operator can allow more", from.Namespace, s.options.ModuleNamespaces), nil
	}
	configMap := stored
	if stored == nil || stored.Namespace != from.Namespace || stored.Name != from.Name {
		configMap = &corev1.ConfigMap{}
		err := s.options.Client.Get(ctx, client.ObjectKey{Namespace: from.Namespace, Name: from.Name}, configMap)
		if apierrors.IsNotFound(err) {
			return nil, &problem{reason: reasonModuleMissing, err: fmt.Errorf("ConfigMap %s/%s does not exist: create it with the module in binaryData", from.Namespace, from.Name)}, nil
		}
		if err != nil {
			return nil, nil, fmt.Errorf("reading ConfigMap %s/%s: %w", from.Namespace, from.Name, err)
		}
	}
	key := from.Key
	if key == "" {
		if len(configMap.BinaryData) != 1 {
			return nil, invalid("spec.module.configMap.key: binaryData of ConfigMap %s/%s has %d keys, name one", from.Namespace, from.Name, len(configMap.BinaryData)), nil
		}
		for key = range configMap.BinaryData {
		}
	}
	raw, ok := configMap.BinaryData[key]
	if _, text := configMap.Data[key]; text && !ok {
		return nil, &problem{reason: reasonModule, err: fmt.Errorf("key %q of ConfigMap %s/%s is text in data and so no WebAssembly module: its author must store a built module in binaryData", key, from.Namespace, from.Name)}, nil
	}
	if !ok {
		return nil, &problem{reason: reasonModuleMissing, err: fmt.Errorf("binaryData of ConfigMap %s/%s has no key %q", from.Namespace, from.Name, key)}, nil
	}
	return raw, nil, nil
}

func limitsOf(limits *policyv1alpha1.Limits) (ModuleLimits, *problem) {
	var out ModuleLimits
	if limits == nil {
		return out, nil
	}
	if limits.Fuel != nil {
		if out.Fuel = *limits.Fuel; out.Fuel < 1 {
			return out, invalid("spec.limits.fuel must be positive")
		}
	}
	if limits.Memory != nil {
		if out.MemoryBytes = limits.Memory.Value(); out.MemoryBytes < 1 {
			return out, invalid("spec.limits.memory must be positive")
		}
	}
	return out, nil
}

// forget drops the modules that no object asks for and no binding uses. Those that
// the chains have had are closed by them, after the last call.
func (s *Source) forget(wanted map[moduleKey]bool) {
	used := map[chain.Policy]bool{}
	for _, b := range s.bound {
		for _, bindings := range [][]chain.Binding{b.bindings, b.fallback} {
			for i := range bindings {
				used[bindings[i].Policy] = true
			}
		}
	}
	for key, m := range s.modules {
		if m.policy != nil && used[m.policy] {
			m.bound = true
			continue
		}
		if !m.bound && wanted[key] {
			continue
		}
		delete(s.modules, key)
		if m.policy != nil && !m.bound && s.options.Close != nil {
			s.options.Close(m.policy)
		}
	}
}
