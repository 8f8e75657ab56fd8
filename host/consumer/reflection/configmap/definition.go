// Package configmap is Pod flow, stage 5: the definition with which the reflection engine
// copies ConfigMaps to the provider, so that offloaded pods find what they mount
// (wire 4.6).
package configmap

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

// Options configure the definition.
type Options struct {
	Origin remote.Origin
	// Policy is DenyList or AllowList (--configmap-reflection-type).
	Policy offloadingv1beta1.ReflectionType
	// Workers is the number of objects handled at once (--configmap-reflection-workers).
	Workers int
}

// Definition copies ConfigMaps.
type Definition struct{ options Options }

var (
	_ engine.Definition    = (*Definition)(nil)
	_ engine.Remapper      = (*Definition)(nil)
	_ engine.PolicyChooser = (*Definition)(nil)
	_ engine.Replacer      = (*Definition)(nil)
)

// New returns the definition.
func New(options Options) *Definition { return &Definition{options: options} }

// Resource implements engine.Definition.
func (d *Definition) Resource() engine.Resource {
	kind := engine.Kind{
		New:     func() client.Object { return &corev1.ConfigMap{} },
		NewList: func() client.ObjectList { return &corev1.ConfigMapList{} },
	}
	return engine.Resource{
		Name: "configmap", Local: kind, Remote: kind,
		Policy: d.options.Policy, Filter: true, LeaderOnly: true, Workers: max(d.options.Workers, 1),
	}
}

// ReflectionPolicy implements engine.PolicyChooser: the map with the root CA goes along
// whatever the policy, unless an annotation on it speaks (4.6).
func (d *Definition) ReflectionPolicy(local client.Object) offloadingv1beta1.ReflectionType {
	if local.GetName() == remote.RootCAConfigMapName {
		return engine.Explicit
	}
	return d.options.Policy
}

// ToRemote implements engine.Remapper: each namespace of the provider has a root CA map
// of its own, so ours takes another name.
func (d *Definition) ToRemote(local string) string {
	return remote.ConfigMapName(local, d.options.Origin)
}

// ToLocal implements engine.Remapper.
func (d *Definition) ToLocal(name string) string {
	return remote.LocalConfigMapName(name, d.options.Origin)
}

// Decide implements engine.Definition.
func (d *Definition) Decide(in engine.Input) ([]engine.Action, error) {
	local, _ := in.Local.(*corev1.ConfigMap)
	return engine.Mirror(in, func() (runtime.ApplyConfiguration, error) {
		return remote.ConfigMap(local, in.Facts.RemoteNamespace, in.Labels, in.Annotations, d.options.Origin), nil
	})
}

// Replaces implements engine.Replacer: no update changes the content of an immutable
// remote map (T47).
func (*Definition) Replaces(wanted, remote client.Object) bool {
	want, isMap := wanted.(*corev1.ConfigMap)
	there, isMapToo := remote.(*corev1.ConfigMap)
	if !isMap || !isMapToo || there.Immutable == nil || !*there.Immutable {
		return false
	}
	return want.Immutable == nil || !*want.Immutable || !maps.Equal(want.Data, there.Data) ||
		!equality.Semantic.DeepEqual(want.BinaryData, there.BinaryData)
}
