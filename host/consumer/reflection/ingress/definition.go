// Package ingress is Pod flow, stage 5: the definition with which the reflection engine
// copies Ingresses to the provider, so that offloaded applications are reachable there
// (wire 4.3).
package ingress

import (
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

// Options configure the definition.
type Options struct {
	Origin remote.Origin
	// Policy is DenyList or AllowList (--ingress-reflection-type).
	Policy offloadingv1beta1.ReflectionType
	// Workers is the number of objects handled at once (--ingress-reflection-workers).
	Workers int
	// Class is the ingress class of remote Ingresses; empty leaves it to the provider's
	// default class (--enable-ingress with --remote-real-ingress-class-name).
	Class string
}

// Definition copies Ingresses.
type Definition struct{ options Options }

var _ engine.Definition = (*Definition)(nil)

// New returns the definition.
func New(options Options) *Definition { return &Definition{options: options} }

// Resource implements engine.Definition.
func (d *Definition) Resource() engine.Resource {
	kind := engine.Kind{
		New:     func() client.Object { return &networkingv1.Ingress{} },
		NewList: func() client.ObjectList { return &networkingv1.IngressList{} },
	}
	return engine.Resource{
		Name: "ingress", Local: kind, Remote: kind,
		Policy: d.options.Policy, Filter: true, LeaderOnly: true, Workers: max(d.options.Workers, 1),
	}
}

// Decide implements engine.Definition.
func (d *Definition) Decide(in engine.Input) ([]engine.Action, error) {
	local, _ := in.Local.(*networkingv1.Ingress)
	return engine.Mirror(in, func() (runtime.ApplyConfiguration, error) {
		return remote.Ingress(local, in.Facts.RemoteNamespace, in.Labels, in.Annotations, d.options.Origin, d.options.Class), nil
	})
}
