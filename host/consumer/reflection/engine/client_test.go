package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

func TestRESTMapperNeedsNoDiscovery(t *testing.T) {
	mapper, err := restMapper(newCluster(t).Scheme(), pods{}, maps{})
	require.NoError(t, err)
	for kind, want := range map[schema.GroupVersionKind]string{
		corev1.SchemeGroupVersion.WithKind("Pod"):               "pods",
		corev1.SchemeGroupVersion.WithKind("ConfigMap"):         "configmaps",
		offloadingv1beta1.GroupVersion.WithKind("ShadowPod"):    "shadowpods",
		offloadingv1beta1.GroupVersion.WithKind("NamespaceMap"): "namespacemaps",
	} {
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		require.NoError(t, err)
		assert.Equal(t, want, mapping.Resource.Resource)
		assert.Equal(t, "namespace", string(mapping.Scope.Name()))
	}
}
