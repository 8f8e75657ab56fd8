package modules

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policysource/plan"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// found is the module that a policy names: the built-in one, or bytes to be loaded.
type found struct {
	key     Key
	builtIn chain.Policy
	raw     []byte
}

// find returns the module that a policy names. The ConfigMap stored, if it is not nil, takes the
// place of the one in the cluster. An error is temporary, a problem is not.
func (m *Modules) find(ctx context.Context, policy *policyv1alpha1.OffloadingPolicy, stored *corev1.ConfigMap) (found, *plan.Problem, error) {
	spec := &policy.Spec
	limits, problem := LimitsOf(spec.Limits)
	if problem != nil {
		return found{}, problem, nil
	}
	if name := spec.Module.BuiltIn; name != "" {
		out := found{key: Key{content: "built-in " + name, limits: limits}}
		if name != policyv1alpha1.BuiltInDefault {
			return out, plan.Invalid("spec.module.builtIn %q is unknown: the operator must name %q", name, policyv1alpha1.BuiltInDefault), nil
		}
		if limits == (Limits{}) {
			out.builtIn = m.options.BuiltIn
			return out, nil, nil
		}
		var err error
		if out.raw, err = m.options.BuiltInBytes(); err != nil {
			return out, nil, fmt.Errorf("reading built-in module %q: %w", name, err)
		}
		return out, nil, nil
	}
	raw, problem, err := m.read(ctx, spec.Module.ConfigMap, stored)
	if problem != nil || err != nil {
		return found{}, problem, err
	}
	if problem, err := m.attest(ctx, spec.Module.ConfigMap, raw, stored); problem != nil || err != nil {
		return found{}, problem, err
	}
	sum := sha256.Sum256(raw)
	return found{key: Key{content: hex.EncodeToString(sum[:]), limits: limits}, raw: raw}, nil, nil
}

// read returns the bytes of a module in one or several ConfigMaps.
func (m *Modules) read(ctx context.Context, from *policyv1alpha1.ConfigMapSource, stored *corev1.ConfigMap) ([]byte, *plan.Problem, error) {
	if !slices.Contains(m.options.Namespaces, from.Namespace) {
		return nil, plan.Invalid("spec.module.configMap.namespace %q: modules are loaded from %v only; an operator can allow more", from.Namespace, m.options.Namespaces), nil
	}
	raw, problem, err := m.piece(ctx, client.ObjectKey{Namespace: from.Namespace, Name: from.Name}, from.Key, stored)
	for _, name := range from.Parts {
		if problem != nil || err != nil {
			break
		}
		var part []byte
		part, problem, err = m.piece(ctx, client.ObjectKey{Namespace: from.Namespace, Name: name}, from.Key, stored)
		raw = slices.Concat(raw, part)
	}
	if problem != nil || err != nil {
		return nil, problem, err
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
func (m *Modules) piece(ctx context.Context, name client.ObjectKey, key string, stored *corev1.ConfigMap) ([]byte, *plan.Problem, error) {
	configMap, problem, err := m.configMap(ctx, name, stored)
	if problem != nil || err != nil {
		return nil, problem, err
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
		return nil, notLoaded(fmt.Errorf("key %q of ConfigMap %s is text in data and not a WebAssembly module: its author must store a built module in binaryData", key, name)), nil
	}
	if !ok {
		return nil, &plan.Problem{Reason: plan.ReasonModuleNotFound, Err: fmt.Errorf("binaryData of ConfigMap %s has no key %q: the operator must store the module there, or set spec.module.configMap.key to its key", name, key)}, nil
	}
	return raw, nil, nil
}

// configMap reads a ConfigMap, or returns the one that is being stored.
func (m *Modules) configMap(ctx context.Context, name client.ObjectKey, stored *corev1.ConfigMap) (*corev1.ConfigMap, *plan.Problem, error) {
	if stored != nil && client.ObjectKeyFromObject(stored) == name {
		return stored, nil, nil
	}
	configMap := &corev1.ConfigMap{}
	err := m.options.Client.Get(ctx, name, configMap)
	if apierrors.IsNotFound(err) {
		return nil, &plan.Problem{Reason: plan.ReasonModuleNotFound, Err: fmt.Errorf("ConfigMap %s does not exist: the operator must create it with the module in binaryData", name)}, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading ConfigMap %s: %w", name, err)
	}
	return configMap, nil, nil
}

// LimitsOf reads spec.limits. Limits above the host's bounds are a problem: the API server
// refuses them, but not in policies that were stored before the bounds existed.
func LimitsOf(limits *policyv1alpha1.Limits) (Limits, *plan.Problem) {
	var out Limits
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
