package mirror

import (
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

// ingress mirrors Ingresses.
var ingress = kind[*networkingv1.Ingress]{
	name:      "ingress",
	empty:     func() client.Object { return &networkingv1.Ingress{} },
	emptyList: func() client.ObjectList { return &networkingv1.IngressList{} },
	forge: func(local *networkingv1.Ingress, in engine.Input, o Options) (runtime.ApplyConfiguration, error) {
		return remote.Ingress(local, in.Facts.RemoteNamespace, in.Labels, in.Annotations, o.Origin, o.Class), nil
	},
}
