package mirror

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

// service mirrors Services.
var service = kind[*corev1.Service]{
	name:      "service",
	empty:     func() client.Object { return &corev1.Service{} },
	emptyList: func() client.ObjectList { return &corev1.ServiceList{} },
	forge: func(local *corev1.Service, in engine.Input, o Options) (runtime.ApplyConfiguration, error) {
		return remote.Service(local, in.Facts.RemoteNamespace, in.Labels, in.Annotations, o.Origin, o.Class), nil
	},
	ignore: func(in engine.Input) string {
		if in.Key == (engine.Key{Namespace: corev1.NamespaceDefault, Name: "kubernetes"}) {
			return "it is the Service of the API server"
		}
		return ""
	},
	replaces: replacesService,
	desired: func(local *corev1.Service, o Options) *corev1.Service {
		desired := *local
		desired.Spec.LoadBalancerClass = nil
		if o.Class != "" {
			desired.Spec.LoadBalancerClass = &o.Class
		}
		return &desired
	},
}

// replacesService reports whether no update changes a Service: a cluster IP can be neither added nor
// removed, and a load balancer keeps its class.
func replacesService(desired, current *corev1.Service) (replaces bool, notice string) {
	if desired.Spec.Type == corev1.ServiceTypeExternalName || current.Spec.Type == corev1.ServiceTypeExternalName {
		return false, ""
	}
	if desired.Spec.Type == corev1.ServiceTypeLoadBalancer && current.Spec.Type == corev1.ServiceTypeLoadBalancer {
		class, had := ptr.Deref(desired.Spec.LoadBalancerClass, ""), ptr.Deref(current.Spec.LoadBalancerClass, "")
		// A class that is not ours is the provider's default, which an apply leaves.
		if class != had && (class != "" || engine.HasApplied(current, "spec", "loadBalancerClass")) {
			return true, fmt.Sprintf("The remote Service is deleted and created again, because its load balancer class changes from %q to %q: its external address changes.", had, class)
		}
	}
	return (desired.Spec.ClusterIP == corev1.ClusterIPNone) != (current.Spec.ClusterIP == corev1.ClusterIPNone), ""
}
