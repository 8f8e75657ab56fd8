package policy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/longshore-dev/longshore/cmd/longshorectl/admin"
	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/conformance/suite"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/module"
	"github.com/longshore-dev/longshore/host/policysource/attestation"
	"github.com/longshore-dev/longshore/host/policysource/configmap"
	"github.com/longshore-dev/longshore/sdk/contract"
)

const (
	// partBytes is what one ConfigMap holds of a module: less than 1 MiB, with its metadata.
	partBytes = 1_000_000
	// maxParts is the number of ConfigMaps of one module: the first, and spec.module.configMap.parts.
	maxParts = 16
)

// Pushed are the objects of a policy.
type Pushed struct {
	// ConfigMaps with the module, in the order of its bytes.
	ConfigMaps []*corev1.ConfigMap
	// Policy that binds it.
	Policy *policyv1alpha1.OffloadingPolicy
}

// pushOptions are a module and its policy, as bytes of files.
type pushOptions struct {
	source, name, namespace string
	module, spec, report    []byte
	compile                 engine.Compiler
}

// objectsOf loads the module as a cluster does, and returns the objects of its policy.
func objectsOf(ctx context.Context, o *pushOptions) (pushed *Pushed, err error) {
	policy := &policyv1alpha1.OffloadingPolicy{TypeMeta: metav1.TypeMeta{APIVersion: policyv1alpha1.GroupVersion.String(), Kind: "OffloadingPolicy"}}
	if err := yaml.UnmarshalStrict(o.spec, &policy.Spec); err != nil {
		return nil, fmt.Errorf("reading the spec: %w", err)
	}
	if policy.Spec.Module.BuiltIn != "" || policy.Spec.Module.ConfigMap != nil {
		return nil, output.Usagef("the spec names a module: leave out its field module, which this command sets")
	}
	limits, err := limitsOf(&policy.Spec)
	if err != nil {
		return nil, err
	}
	runtime, err := engine.New(ctx, engine.Options{Compiler: o.compile})
	if err != nil {
		return nil, fmt.Errorf("starting the policy engine: %w", err)
	}
	defer func() { err = errors.Join(err, runtime.Close(ctx)) }()
	loaded, err := module.Load(ctx, runtime, o.module, module.Options{Name: o.source, Limits: limits})
	if err != nil {
		return nil, refusedModule(ctx, o.source, err)
	}
	if o.name == "" {
		o.name = loaded.Name()
	}
	if problems := validation.IsDNS1123Subdomain(o.name); len(problems) > 0 {
		return nil, output.Usagef("invalid --name %q: %s", o.name, strings.Join(problems, "; "))
	}
	if err := bindPoints(ctx, loaded, &policy.Spec); err != nil {
		return nil, refusedModule(ctx, o.source, err)
	}
	configMaps, source, err := split(o)
	if err != nil {
		return nil, err
	}
	policy.Name, policy.Spec.Module.ConfigMap = o.name, source
	return &Pushed{ConfigMaps: configMaps, Policy: policy}, nil
}

// bindPoints checks that the module answers the points of the spec, with its settings, and the golden questions
// of each in a way that a component can use. A spec without points gets those of the module.
func bindPoints(ctx context.Context, loaded *module.Module, spec *policyv1alpha1.OffloadingPolicySpec) error {
	if len(spec.Points) == 0 {
		for i := range loaded.Manifest().Points {
			spec.Points = append(spec.Points, policyv1alpha1.ExtensionPoint(loaded.Manifest().Points[i].Point))
		}
	}
	var settings []byte
	if spec.Settings != nil {
		settings = spec.Settings.Raw
	}
	for _, point := range spec.Points {
		if loaded.Manifest().For(contract.Point(point)) == nil {
			return &module.Refusal{Err: fmt.Errorf("spec.points names %s, which the module does not answer; the operator must correct it", point)}
		}
		if err := loaded.ValidateSettings(ctx, settings, contract.Point(point)); err != nil {
			return err
		}
		binding := chain.Binding{Point: contract.Point(point), Settings: settings}
		if err := readAllow(&binding, spec.Allow); err != nil {
			return err
		}
		if err := suite.AskGolden(ctx, loaded, binding); err != nil {
			return err
		}
	}
	return nil
}

// split distributes a module over ConfigMaps. One that is not compressed is, before.
func split(o *pushOptions) ([]*corev1.ConfigMap, *policyv1alpha1.ConfigMapSource, error) {
	data, key := o.module, "module.wasm.gz"
	switch {
	case strings.HasPrefix(string(data), "\x28\xb5\x2f\xfd"):
		key = "module.wasm.zst"
	case strings.HasPrefix(string(data), "\x00asm"):
		var err error
		if data, err = pack(data); err != nil {
			return nil, nil, err
		}
	}
	pieces := slices.Collect(slices.Chunk(data, partBytes))
	if len(pieces) > maxParts {
		return nil, nil, fmt.Errorf("the module has %s compressed, more than %d ConfigMaps hold: compress it with zstd -19, build it without debug information, or leave out libraries that it does not need",
			size(len(data)), maxParts)
	}
	sum := sha256.Sum256(data)
	source := &policyv1alpha1.ConfigMapSource{Namespace: o.namespace, Name: o.name, Key: key, Digest: "sha256:" + hex.EncodeToString(sum[:])}
	var configMaps []*corev1.ConfigMap
	for i, piece := range pieces {
		name := o.name
		if i > 0 {
			name = fmt.Sprintf("%s-part-%d", o.name, i+1)
			source.Parts = append(source.Parts, name)
		}
		configMaps = append(configMaps, &corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Namespace: o.namespace, Name: name},
			BinaryData: map[string][]byte{key: piece},
		})
	}
	if len(o.report) > 0 {
		configMaps[0].Data = map[string]string{attestation.DataKey: string(o.report)}
	}
	return configMaps, source, nil
}

// objects lists the objects in the order in which they are written: the policy, whose digest
// tells a complete module from a mixture of two, comes last.
func (p *Pushed) objects() []client.Object {
	var objects []client.Object
	for _, configMap := range p.ConfigMaps {
		objects = append(objects, configMap)
	}
	return append(objects, p.Policy)
}

// apply writes the objects. It changes no policy that the manager keeps from a ConfigMap, and no such
// ConfigMap.
func (p *Pushed) apply(ctx context.Context, c *admin.Cluster) error {
	have := &policyv1alpha1.OffloadingPolicy{}
	err := c.Get(ctx, client.ObjectKeyFromObject(p.Policy), have)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading OffloadingPolicy %s: %w", p.Policy.Name, err)
	}
	if err == nil && configmap.IsManaged(have) {
		return fmt.Errorf("OffloadingPolicy %s is kept from the ConfigMap of its name, which has the label %s: change the ConfigMap, or choose another --name",
			p.Policy.Name, policyv1alpha1.PolicyLabel)
	}
	for _, want := range p.ConfigMaps {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: want.Namespace, Name: want.Name}}
		if err := c.Write(ctx, object, func() error {
			if configmap.IsSelected(object) {
				return fmt.Errorf("it is a policy of its own, by the label %s: choose another --name", policyv1alpha1.PolicyLabel)
			}
			object.Data, object.BinaryData = want.Data, want.BinaryData
			return nil
		}); err != nil {
			return err
		}
	}
	object := &policyv1alpha1.OffloadingPolicy{ObjectMeta: metav1.ObjectMeta{Name: p.Policy.Name}}
	if err := c.Write(ctx, object, func() error { object.Spec = p.Policy.Spec; return nil }); err != nil {
		return err
	}
	p.Policy.Generation = object.Generation
	return nil
}

// await waits until every component decides by the policy.
func (p *Pushed) await(ctx context.Context, c *admin.Cluster) error {
	object := &policyv1alpha1.OffloadingPolicy{ObjectMeta: metav1.ObjectMeta{Name: p.Policy.Name}}
	return c.Until(ctx, object, func(string) {}, func() string {
		condition := meta.FindStatusCondition(object.Status.Conditions, policyv1alpha1.ReadyCondition)
		switch {
		case condition == nil || object.Status.ObservedGeneration < p.Policy.Generation:
			return "its status"
		case condition.Status != metav1.ConditionTrue:
			return condition.Reason + ": " + condition.Message
		default:
			return ""
		}
	})
}
