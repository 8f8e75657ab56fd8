package feed

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPathOf(t *testing.T) {
	for path, want := range map[string]string{
		"/api/v1/pods": Path + "/pods",
		"/apis/offloading.liqo.io/v1beta1/shadowpods": Path + "/shadowpods",
		"/prefix/api/v1/secrets":                      "/prefix" + Path + "/secrets",
		"/api/v1/namespaces/shop/pods":                "/api/v1/namespaces/shop/pods",
		"/version":                                    "/version",
	} {
		assert.Equal(t, want, PathOf(path))
	}
}

func TestEachResourceHasACollectionWhosePathIsThatOfTheFeed(t *testing.T) {
	for _, resource := range Resources() {
		path, ok := CollectionOf(resource)
		require.True(t, ok)
		assert.Equal(t, Path+"/"+resource, PathOf(path))
		kind, ok := KindOf(resource)
		require.True(t, ok)
		assert.True(t, HasKind(kind))
	}
	_, ok := CollectionOf("nodes")
	assert.False(t, ok)
	assert.False(t, HasKind(corev1.SchemeGroupVersion.WithKind("Node")))
}

func TestABookmarkListsNamespaces(t *testing.T) {
	for name, namespaces := range map[string][]string{"two namespaces": {"one", "two"}, "no namespace": nil} {
		t.Run(name, func(t *testing.T) {
			raw, err := Bookmark("pods", "12", namespaces)
			require.NoError(t, err)
			var e struct {
				Type   string
				Object corev1.Pod
			}
			require.NoError(t, json.Unmarshal(raw, &e))
			assert.Equal(t, "BOOKMARK", e.Type)
			assert.Equal(t, "12", e.Object.ResourceVersion)
			assert.Equal(t, "Pod", e.Object.Kind)
			got, ok := Namespaces(&e.Object)
			assert.True(t, ok)
			assert.Equal(t, namespaces, got)
		})
	}
	_, ok := Namespaces(&metav1.ObjectMeta{})
	assert.False(t, ok, "a bookmark of the API server")
}
