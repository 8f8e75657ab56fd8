package configmap

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
)

// Event reasons and the action on the ConfigMap.
const (
	// ReasonInvalidSpec is set when policy.yaml is not a valid spec.
	ReasonInvalidSpec = "InvalidPolicySpec"
	// ReasonNoModule is set when there is no module, or more than one.
	ReasonNoModule = "ModuleNotFound"
	// ReasonNameTaken is set when an unmanaged OffloadingPolicy has the name.
	ReasonNameTaken = "NameTaken"
	// ReasonRefused is set when the API server refuses the OffloadingPolicy.
	ReasonRefused = "PolicyRefused"

	actionLoad = "LoadPolicy"
)

// Problem is why a ConfigMap cannot be a policy.
type Problem struct {
	// Reason of the event.
	Reason string
	// Err says what is wrong and who must act.
	Err error
}

// moduleKeys are the keys that the module may have.
var moduleKeys = []string{"module.wasm", "module.wasm.gz", "module.wasm.zst"}

// Spec returns the spec of a ConfigMap's OffloadingPolicy, with the API server's defaults. It is
// pure.
func Spec(source *corev1.ConfigMap) (*policyv1alpha1.OffloadingPolicySpec, *Problem) {
	key, bad := moduleKey(source)
	if bad != nil {
		return nil, bad
	}
	spec, err := decode(source.Data[policyv1alpha1.PolicyConfigMapSpecKey])
	if err != nil {
		return nil, &Problem{Reason: ReasonInvalidSpec, Err: fmt.Errorf("%s: %w; its author must correct it", policyv1alpha1.PolicyConfigMapSpecKey, err)}
	}
	if _, binary := source.BinaryData[policyv1alpha1.PolicyConfigMapSpecKey]; binary {
		return nil, &Problem{Reason: ReasonInvalidSpec, Err: fmt.Errorf("%s is in binaryData and not text: its author must store it in data", policyv1alpha1.PolicyConfigMapSpecKey)}
	}
	module := &policyv1alpha1.ConfigMapSource{Namespace: source.Namespace, Name: source.Name, Key: key}
	if rest := spec.Module.ConfigMap; rest != nil {
		module.Parts, module.Digest = rest.Parts, rest.Digest
	}
	spec.Module = policyv1alpha1.ModuleSource{ConfigMap: module}
	if spec.FailurePolicy == "" {
		spec.FailurePolicy = policyv1alpha1.FailurePolicyFail
	}
	if spec.Mode == "" {
		spec.Mode = policyv1alpha1.ModeEnforce
	}
	return spec, nil
}

// moduleKey returns the key of the module. It may be in data, where kubectl puts bytes that are
// text; the policy's status then says that it is not WebAssembly.
func moduleKey(source *corev1.ConfigMap) (string, *Problem) {
	var found []string
	for _, key := range moduleKeys {
		_, binary := source.BinaryData[key]
		_, text := source.Data[key]
		if binary || text {
			found = append(found, key)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", &Problem{Reason: ReasonNoModule, Err: fmt.Errorf("binaryData has none of %s: the author of the ConfigMap must add the module under one of these keys", strings.Join(moduleKeys, ", "))}
	default:
		return "", &Problem{Reason: ReasonNoModule, Err: fmt.Errorf("there is more than one module, %s: the author of the ConfigMap must leave one", strings.Join(found, ", "))}
	}
}

// decode reads policy.yaml. It refuses unknown and repeated fields: a misspelled field would
// change the meaning of the policy.
func decode(text string) (*policyv1alpha1.OffloadingPolicySpec, error) {
	raw, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("reading YAML: %w", err)
	}
	spec := &policyv1alpha1.OffloadingPolicySpec{}
	strict, err := json.UnmarshalStrict(raw, spec)
	if err = errors.Join(append(strict, err)...); err != nil {
		return nil, errors.New(strings.ReplaceAll(err.Error(), "\n", ", "))
	}
	if module := &spec.Module; module.BuiltIn != "" || module.ConfigMap != nil && (module.ConfigMap.Namespace != "" || module.ConfigMap.Name != "" || module.ConfigMap.Key != "") {
		return nil, errors.New(`"module" must not be set, but for parts and digest of its configMap: the module is the one in this ConfigMap`)
	}
	return spec, nil
}
