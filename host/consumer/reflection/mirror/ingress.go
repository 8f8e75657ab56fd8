package mirror

import (
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

// The places of the related kinds of Ingresses in engine.Input.Related.
const (
	ingressService = iota
	ingressSentService
)

// ingress mirrors Ingresses.
var ingress = kind[*networkingv1.Ingress]{
	name:      "ingress",
	empty:     func() client.Object { return &networkingv1.Ingress{} },
	emptyList: func() client.ObjectList { return &networkingv1.IngressList{} },
	forge: func(local *networkingv1.Ingress, in engine.Input, o Options) (runtime.ApplyConfiguration, error) {
		return remote.Ingress(local, in.Facts.RemoteNamespace, in.Labels, in.Annotations, o.Origin, o.Class), nil
	},
	related: []engine.Related{
		ingressService:     localServices(ingressesOf),
		ingressSentService: sentServices(ingressesOf),
	},
	// A name without Service leads nowhere in either cluster.
	awaits: func(local *networkingv1.Ingress, in engine.Input) string {
		if engine.IsAnnotated(local) {
			return ""
		}
		for _, name := range backends(local) {
			if in.Related[ingressService](name) != nil && in.Related[ingressSentService](name) == nil {
				return name
			}
		}
		return ""
	},
}

// backends returns the names of the Services of an Ingress.
func backends(in *networkingv1.Ingress) []string {
	var names []string
	add := func(backend *networkingv1.IngressBackend) {
		if backend != nil && backend.Service != nil {
			names = append(names, backend.Service.Name)
		}
	}
	add(in.Spec.DefaultBackend)
	for i := range in.Spec.Rules {
		if http := in.Spec.Rules[i].HTTP; http != nil {
			for j := range http.Paths {
				add(&http.Paths[j].Backend)
			}
		}
	}
	return names
}

// ingressesOf returns the names of the Ingresses with a Service.
func ingressesOf(service client.Object, locals []client.Object) []string {
	var names []string
	for _, local := range locals {
		if ingress, ok := local.(*networkingv1.Ingress); ok && slices.Contains(backends(ingress), service.GetName()) {
			names = append(names, ingress.Name)
		}
	}
	return names
}
