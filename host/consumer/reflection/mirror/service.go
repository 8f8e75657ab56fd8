package mirror

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
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
	// A cluster IP can be neither added nor removed by an update.
	replaces: func(desired, current *corev1.Service) bool {
		if desired.Spec.Type == corev1.ServiceTypeExternalName || current.Spec.Type == corev1.ServiceTypeExternalName {
			return false
		}
		return (desired.Spec.ClusterIP == corev1.ClusterIPNone) != (current.Spec.ClusterIP == corev1.ClusterIPNone)
	},
}
