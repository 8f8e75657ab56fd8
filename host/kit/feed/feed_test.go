package feed

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestEachResourceHasAKindAndACollection(t *testing.T) {
	for _, resource := range Resources() {
		path, ok := CollectionOf(resource)
		require.True(t, ok)
		assert.Regexp(t, "^/(api/v1|apis/[^/]+/[^/]+)/"+resource+"$", path)
		kind, ok := KindOf(resource)
		require.True(t, ok)
		found, ok := ResourceOf(kind)
		assert.True(t, ok)
		assert.Equal(t, resource, found)
	}
	_, ok := CollectionOf("nodes")
	assert.False(t, ok)
	_, ok = ResourceOf(corev1.SchemeGroupVersion.WithKind("Node"))
	assert.False(t, ok)
}

func TestNamespacesOfABookmark(t *testing.T) {
	for value, want := range map[string][]string{"one,two": {"one", "two"}, "": nil} {
		namespaces, ok := Namespaces(&metav1.ObjectMeta{Annotations: map[string]string{NamespacesAnnotation: value}})
		assert.True(t, ok)
		assert.Equal(t, want, namespaces)
	}
	_, ok := Namespaces(&metav1.ObjectMeta{})
	assert.False(t, ok, "a bookmark of the API server")
}
