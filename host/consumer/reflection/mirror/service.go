package mirror

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

// parentGrace is how long nothing is withdrawn or reported for the lack of a Service: one that is created at
// the same moment, or replaced, is there soon.
const parentGrace = 10 * time.Second

// waiting is what is remembered of an object whose Service is not reflected.
type waiting struct{ since time.Time }

// localServices and sentServices are the Services of the consumer, and those that are reflected.
func localServices(keys func(service client.Object, locals []client.Object) []string) engine.Related {
	return engine.Related{Kind: engine.Kind{New: service.empty, NewList: service.emptyList}, Keys: keys}
}

func sentServices(keys func(service client.Object, locals []client.Object) []string) engine.Related {
	related := localServices(keys)
	related.IsRemote = true
	return related
}

// await is the decision about an object whose Service is not reflected. A Service of the provider has its
// name, or may get it: what belongs to the Service would take effect on that one.
func await(in engine.Input, name string) []engine.Action {
	const wait = "its Service is not reflected"
	begun, isWaiting := in.Memory.(waiting)
	if !isWaiting {
		return []engine.Action{engine.Remember{Value: waiting{in.Facts.Now}}, engine.Requeue{After: parentGrace, Reason: wait}}
	}
	if left := begun.since.Add(parentGrace).Sub(in.Facts.Now); left > 0 {
		return []engine.Action{engine.Requeue{After: left, Reason: wait}}
	}
	return withhold(in, "it needs Service "+name+", which is not reflected: see the events of the Service. With the annotation "+
		offloadingv1beta1.AllowReflectionAnnotation+" it is reflected nevertheless.")
}

// service mirrors Services.
var service = kind[*corev1.Service]{
	name:      "service",
	empty:     func() client.Object { return &corev1.Service{} },
	emptyList: func() client.ObjectList { return &corev1.ServiceList{} },
	forge: func(local *corev1.Service, in engine.Input, o Options) (runtime.ApplyConfiguration, error) {
		config := remote.Service(local, in.Facts.RemoteNamespace, in.Labels, in.Annotations, o.Origin, o.Class)
		if local.Spec.ExternalName == "" {
			return config, nil
		}
		name, left := remote.TranslateExternalName(local.Spec.ExternalName, in.RemoteNamespaceOf)
		config.Spec.WithExternalName(name)
		if left != "" {
			return config, &remote.LeftOutError{Reasons: []string{fmt.Sprintf(
				"externalName %q is sent as it is, because namespace %q is not offloaded: that cluster has none of this name, or another one. Offload it; with EnforceSameName it keeps its name", name, left)}}
		}
		return config, nil
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
