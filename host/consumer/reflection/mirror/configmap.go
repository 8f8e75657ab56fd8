package mirror

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

// configMap mirrors ConfigMaps. Each namespace of the provider has a root CA
// ConfigMap of its own, so that of the consumer gets another name. It is reflected under
// every policy, unless an annotation on it says otherwise.
var configMap = kind[*corev1.ConfigMap]{
	name:      "configmap",
	areMany:   true,
	empty:     func() client.Object { return &corev1.ConfigMap{} },
	emptyList: func() client.ObjectList { return &corev1.ConfigMapList{} },
	forge: func(local *corev1.ConfigMap, in engine.Input, o Options) (runtime.ApplyConfiguration, error) {
		return remote.ConfigMap(local, in.Facts.RemoteNamespace, in.Labels, in.Annotations, o.Origin), nil
	},
	policy: func(local *corev1.ConfigMap, _ engine.Input, d offloadingv1beta1.ReflectionType) (offloadingv1beta1.ReflectionType, client.Object) {
		if local.Name == remote.RootCAConfigMapName {
			return engine.Explicit, local
		}
		return d, local
	},
	toRemote: remote.ConfigMapName,
	toLocal:  remote.LocalConfigMapName,
	// The content of an immutable ConfigMap cannot be updated.
	replaces: func(desired, current *corev1.ConfigMap) (bool, string) {
		return isSet(current.Immutable) && (!isSet(desired.Immutable) || !maps.Equal(desired.Data, current.Data) ||
			!equality.Semantic.DeepEqual(desired.BinaryData, current.BinaryData)), ""
	},
}

func isSet(b *bool) bool { return b != nil && *b }
