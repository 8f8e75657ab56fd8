package policysource

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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
	"github.com/longshore-dev/longshore/sdk/contract"
)

const (
	// maxLoads is how many modules are loaded at a time: compiling one takes a processor
	// and, for a while, many times the memory that the module needs afterwards.
	maxLoads = 2
	// loadPatience is how long a load takes before status tells of it.
	loadPatience = time.Second
	// loadRetry is when a module is loaded again that could not be for a reason that is not
	// its own, memory for instance.
	loadRetry = time.Minute
)

// moduleKey tells loaded modules apart: by content and limits, or by built-in name.
type moduleKey struct {
	content string
	limits  ModuleLimits
}

// module is a loaded module, or why it cannot be loaded, or one on its way: the same bytes
// are not compiled again on every pass, nor for every policy.
type module struct {
	policy chain.Policy
	err    error
	// load that is under way, nil when it is over.
	load *loading.Load[chain.Policy]
	// began is when it did, again when it is to be tried once more: zero when it is not.
	began, again time.Time
	// bound tells that the chains have had it: they say when it may be closed.
	bound bool
}

// find finds out what an object names as its module: a built-in one that is ready, or
// bytes that are to be loaded, and their key. A ConfigMap that is about to be stored stands
// in for the one in the cluster. A temporary failure is returned as error, a lasting one as
// problem.
func (s *Source) find(ctx context.Context, policy *policyv1alpha1.OffloadingPolicy, stored *corev1.ConfigMap) (key moduleKey, ready chain.Policy, raw []byte, bad *problem, err error) {
	spec := &policy.Spec
	limits, bad := limitsOf(spec.Limits)
	if bad != nil {
		return moduleKey{}, nil, nil, bad, nil
	}
	if name := spec.Module.BuiltIn; name != "" {
		return s.builtIn(name, limits)
	}
	if raw, bad, err = s.read(ctx, spec.Module.ConfigMap, stored); bad != nil || err != nil {
		return moduleKey{}, nil, nil, bad, err
	}
	sum := sha256.Sum256(raw)
	return moduleKey{content: hex.EncodeToString(sum[:]), limits: limits}, nil, raw, nil, nil
}

// keep returns the module of these bytes. One that is not loaded yet is loaded beside the
// worker, and a pass is made when that is over: until then nothing is returned but when the
// load began.
func (s *Source) keep(ctx context.Context, name string, key moduleKey, raw []byte) (policy chain.Policy, began time.Time, bad *problem) {
	m := s.modules[key]
	if m != nil && m.load == nil && !m.again.IsZero() && !s.options.Clock.Now().Before(m.again) {
		m = nil
	}
	if m == nil {
		m = &module{began: s.options.Clock.Now()}
		m.load = s.loads.Begin(ctx, func(ctx context.Context) (chain.Policy, error) { return s.options.Load(ctx, name, raw, key.limits) })
		s.modules[key] = m
		s.reportAfter(loadPatience)
	}
	if m.load != nil {
		policy, ended, err := m.load.Take()
		if !ended {
			return nil, m.began, nil
		}
		s.options.Metrics.loaded(name, err)
		m.policy, m.err, m.load = policy, err, nil
		if err != nil && !policymodule.AtFault(err) {
			m.again = s.options.Clock.Now().Add(loadRetry)
			s.passAfter(loadRetry)
		}
	}
	if m.err != nil && !m.again.IsZero() {
		return nil, time.Time{}, &problem{reason: reasonModule, err: fmt.Errorf("%w; this is not the module's fault, and it is tried again every minute: an operator should look at the component", m.err)}
	}
	if m.err != nil {
		return nil, time.Time{}, &problem{reason: reasonModule, err: m.err}
	}
	return m.policy, time.Time{}, nil
}

// builtIn finds a built-in module. Limits of its own need instances of its own: then it
// is the bytes that are returned, to be loaded.
func (s *Source) builtIn(name string, limits ModuleLimits) (key moduleKey, ready chain.Policy, raw []byte, bad *problem, err error) {
	key = moduleKey{content: "built-in " + name, limits: limits}
	ready = s.options.BuiltIns[name]
	if ready == nil {
		return key, nil, nil, invalid("spec.module.builtIn %q is unknown: the operator must name %q", name, policyv1alpha1.BuiltInDefault), nil
	}
	if limits == (ModuleLimits{}) {
		return key, ready, nil, nil, nil
	}
	open := s.options.BuiltInModules[name]
	if open == nil || s.options.Load == nil {
		bad = &problem{reason: reasonNotSupported, err: fmt.Errorf("component %s cannot limit built-in modules: the operator must remove spec.limits", s.options.Component)}
		return key, nil, nil, bad, nil
	}
	if raw, err = open(); err != nil {
		return key, nil, nil, nil, fmt.Errorf("reading built-in module %q: %w", name, err)
	}
	return key, nil, raw, nil, nil
}

// read returns the bytes of a module in a ConfigMap, or in several. One that is about to
// be stored stands in for the one in the cluster.
func (s *Source) read(ctx context.Context, from *policyv1alpha1.ConfigMapSource, stored *corev1.ConfigMap) ([]byte, *problem, error) {
	if s.options.Load == nil {
		return nil, &problem{reason: reasonNotSupported, err: fmt.Errorf("component %s runs built-in modules only: the operator must set spec.module.builtIn", s.options.Component)}, nil
	}
	if !slices.Contains(s.options.ModuleNamespaces, from.Namespace) {
		return nil, invalid("spec.module.configMap.namespace %q: modules are loaded from %v only; an operator can allow more", from.Namespace, s.options.ModuleNamespaces), nil
	}
	pieces := make([][]byte, 0, 1+len(from.Parts))
	for _, name := range slices.Concat([]string{from.Name}, from.Parts) {
		piece, bad, err := s.piece(ctx, client.ObjectKey{Namespace: from.Namespace, Name: name}, from.Key, stored)
		if bad != nil || err != nil {
			return nil, bad, err
		}
		pieces = append(pieces, piece)
	}
	raw := pieces[0]
	if len(pieces) > 1 {
		raw = slices.Concat(pieces...)
	}
	return raw, complete(from, raw), nil
}

// complete tells a whole module from one whose parts are, for now, not all of the version
// that the spec names.
func complete(from *policyv1alpha1.ConfigMapSource, raw []byte) *problem {
	if from.Digest == "" && len(from.Parts) == 0 {
		return nil
	}
	sum := sha256.Sum256(raw)
	if digest := "sha256:" + hex.EncodeToString(sum[:]); digest != from.Digest {
		return &problem{reason: reasonIncomplete, err: fmt.Errorf(
			"the module in ConfigMap %s/%s and its %d parts has digest %s, not spec.module.configMap.digest %q: the operator must store all parts of one version, in their order, and its digest",
			from.Namespace, from.Name, len(from.Parts), digest, from.Digest)}
	}
	return nil
}

// piece returns what one ConfigMap holds of a module.
func (s *Source) piece(ctx context.Context, name client.ObjectKey, key string, stored *corev1.ConfigMap) ([]byte, *problem, error) {
	configMap := stored
	if stored == nil || client.ObjectKeyFromObject(stored) != name {
		configMap = &corev1.ConfigMap{}
		err := s.options.Client.Get(ctx, name, configMap)
		if apierrors.IsNotFound(err) {
			return nil, &problem{reason: reasonModuleMissing, missing: name, err: fmt.Errorf("ConfigMap %s does not exist: the operator must create it with the module in binaryData", name)}, nil
		}
		if err != nil {
			return nil, nil, fmt.Errorf("reading ConfigMap %s: %w", name, err)
		}
	}
	if key == "" {
		if len(configMap.BinaryData) != 1 {
			return nil, invalid("spec.module.configMap.key: binaryData of ConfigMap %s has %d keys: the operator must name one", name, len(configMap.BinaryData)), nil
		}
		for key = range configMap.BinaryData {
		}
	}
	raw, ok := configMap.BinaryData[key]
	if _, text := configMap.Data[key]; text && !ok {
		return nil, &problem{reason: reasonModule, err: fmt.Errorf("key %q of ConfigMap %s is text in data and so no WebAssembly module: its author must store a built module in binaryData", key, name)}, nil
	}
	if !ok {
		return nil, &problem{reason: reasonModuleMissing, err: fmt.Errorf("binaryData of ConfigMap %s has no key %q: the operator must store the module there, or set spec.module.configMap.key to where it is", name, key)}, nil
	}
	return raw, nil, nil
}

// limitsOf reads spec.limits, which lower what a call may use and cannot raise it above the
// host's bounds. The API server and the webhook refuse larger ones; a policy that was stored
// before they did is refused here.
func limitsOf(limits *policyv1alpha1.Limits) (ModuleLimits, *problem) {
	var out ModuleLimits
	if limits == nil {
		return out, nil
	}
	if limits.Fuel != nil {
		switch out.Fuel = *limits.Fuel; {
		case out.Fuel < 1:
			return out, invalid("spec.limits.fuel is %d: the operator must set a positive number", out.Fuel)
		case out.Fuel > contract.MaxFuel:
			return out, invalid("spec.limits.fuel is %d, more than the host's bound of %d: the operator must lower it, or remove it", out.Fuel, contract.MaxFuel)
		}
	}
	if limits.Memory != nil {
		switch out.MemoryBytes = limits.Memory.Value(); {
		case out.MemoryBytes < 1:
			return out, invalid("spec.limits.memory is %s: the operator must set a positive number of bytes", limits.Memory)
		case out.MemoryBytes > contract.MaxMemoryBytes:
			return out, invalid("spec.limits.memory is %s, more than the host's bound of %s: the operator must lower it, or remove it",
				limits.Memory, resource.NewQuantity(contract.MaxMemoryBytes, resource.BinarySI))
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
		if m.load != nil {
			s.loads.Drop(m.load)
		}
		if m.policy != nil && !m.bound {
			s.close(m.policy)
		}
	}
}
