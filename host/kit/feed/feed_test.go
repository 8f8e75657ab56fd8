package feed

import (
	"encoding/json"
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
