package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

var certificateKind = schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "Certificate"}

// certificates is a definition of an unstructured kind with a plural that cannot be guessed.
type certificates struct{ maps }

func (certificates) Resource() Resource {
	kind := Kind{
		New: func() client.Object {
			object := &unstructured.Unstructured{}
			object.SetGroupVersionKind(certificateKind)
			return object
		},
		NewList: func() client.ObjectList { return &unstructured.UnstructuredList{} },
		Plural:  "certs",
	}
	return Resource{Name: "certificate", Local: kind, Remote: kind, Workers: 1}
}

func TestRESTMapperNeedsNoDiscovery(t *testing.T) {
	mapper, err := restMapper(newCluster().Scheme(), pods{}, maps{}, certificates{})
	require.NoError(t, err)
	for kind, want := range map[schema.GroupVersionKind]string{
		corev1.SchemeGroupVersion.WithKind("Pod"):               "pods",
		corev1.SchemeGroupVersion.WithKind("ConfigMap"):         "configmaps",
		offloadingv1beta1.GroupVersion.WithKind("ShadowPod"):    "shadowpods",
		offloadingv1beta1.GroupVersion.WithKind("NamespaceMap"): "namespacemaps",
		certificateKind: "certs",
	} {
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		require.NoError(t, err)
		assert.Equal(t, want, mapping.Resource.Resource)
		assert.Equal(t, "namespace", string(mapping.Scope.Name()))
	}
}
