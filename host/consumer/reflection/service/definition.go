// Package service is Pod flow, stage 5: the definition with which the reflection engine
// copies Services to the provider, so that offloaded pods find each other
// (wire 4.2).
package service

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

// Options configure the definition.
type Options struct {
	Origin remote.Origin
	// Policy is DenyList or AllowList (--service-reflection-type).
	Policy offloadingv1beta1.ReflectionType
	// Workers is the number of objects handled at once (--service-reflection-workers).
	Workers int
	// LoadBalancerClass is set on Services of type LoadBalancer; empty leaves it out
	// (--enable-load-balancer with --remote-real-load-balancer-class-name).
	LoadBalancerClass string
}

// Definition copies Services.
type Definition struct{ options Options }

var (
	_ engine.Definition = (*Definition)(nil)
	_ engine.Replacer   = (*Definition)(nil)
)

// New returns the definition.
func New(options Options) *Definition { return &Definition{options: options} }

// Resource implements engine.Definition.
func (d *Definition) Resource() engine.Resource {
	kind := engine.Kind{
		New:     func() client.Object { return &corev1.Service{} },
		NewList: func() client.ObjectList { return &corev1.ServiceList{} },
	}
	return engine.Resource{
		Name: "service", Local: kind, Remote: kind,
		Policy: d.options.Policy, Filter: true, LeaderOnly: true, Workers: max(d.options.Workers, 1),
	}
}

// Decide implements engine.Definition.
func (d *Definition) Decide(in engine.Input) ([]engine.Action, error) {
	if in.Key.Namespace == corev1.NamespaceDefault && in.Key.Name == "kubernetes" {
		return []engine.Action{engine.Keep{Reason: "it is the API server's own"}}, nil
	}
	local, _ := in.Local.(*corev1.Service)
	return engine.Mirror(in, func() (runtime.ApplyConfiguration, error) {
		return remote.Service(local, in.Facts.RemoteNamespace, in.Labels, in.Annotations, d.options.Origin, d.options.LoadBalancerClass), nil
	})
}

// Replaces implements engine.Replacer: no update makes a Service headless that is not, or
// the reverse, since a cluster IP cannot be given or taken.
func (*Definition) Replaces(wanted, copied client.Object) bool {
	want, isService := wanted.(*corev1.Service)
	there, isServiceToo := copied.(*corev1.Service)
	if !isService || !isServiceToo ||
		want.Spec.Type == corev1.ServiceTypeExternalName || there.Spec.Type == corev1.ServiceTypeExternalName {
		return false
	}
	return (want.Spec.ClusterIP == corev1.ClusterIPNone) != (there.Spec.ClusterIP == corev1.ClusterIPNone)
}
