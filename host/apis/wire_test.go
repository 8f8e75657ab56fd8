// Package apis_test compares the API types with manifests and definitions of the reference.
package apis_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"sigs.k8s.io/yaml"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
)

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		offloadingv1beta1.AddToScheme, authv1beta1.AddToScheme, liqocorev1beta1.AddToScheme, policyv1alpha1.AddToScheme,
	} {
		require.NoError(t, add(scheme))
	}
	return scheme
}

// Manifests of the reference's documents decode strictly and keep all fields.
func TestManifestsOfTheReferenceSurviveARoundTrip(t *testing.T) {
	scheme := newScheme(t)
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	files, err := filepath.Glob("testdata/*.yaml")
	require.NoError(t, err)
	require.Len(t, files, 4)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			object, _, err := strict.Decode(raw, nil, nil)
			require.NoError(t, err)
			encoded, err := yaml.Marshal(object)
			require.NoError(t, err)
			var want, got map[string]any
			require.NoError(t, yaml.Unmarshal(raw, &want))
			require.NoError(t, yaml.Unmarshal(encoded, &got))
			dropEmpty(want)
			dropEmpty(got)
			assert.Equal(t, want, got)
		})
	}
}

// dropEmpty removes null and {} from a manifest.
func dropEmpty(object map[string]any) {
	for key, value := range object {
		if child, ok := value.(map[string]any); ok {
			dropEmpty(child)
			if len(child) == 0 {
				delete(object, key)
			}
		}
		if value == nil {
			delete(object, key)
		}
	}
}

func TestAnUnknownFieldIsAnError(t *testing.T) {
	scheme := newScheme(t)
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	_, _, err := strict.Decode([]byte("apiVersion: offloading.liqo.io/v1beta1\nkind: NamespaceMap\nspec: {desired: {}}\n"), nil, nil)
	assert.ErrorContains(t, err, `unknown field "spec.desired"`)
}

// Every kind is registered with its list.
func TestEveryKindIsRegistered(t *testing.T) {
	scheme := newScheme(t)
	want := map[string][]string{
		"offloading.liqo.io":     {"VirtualNode", "VkOptionsTemplate", "NamespaceOffloading", "NamespaceMap", "ShadowPod", "ShadowEndpointSlice", "Quota"},
		"authentication.liqo.io": {"Tenant", "Identity", "ResourceSlice", "Renew"},
		"core.liqo.io":           {"ForeignCluster"},
		"policy.longshore.dev":   {"OffloadingPolicy", "PolicyComponent", "ResourceReflection"},
	}
	for gvk := range scheme.AllKnownTypes() {
		if kinds, ok := want[gvk.Group]; ok && strings.HasSuffix(gvk.Kind, "List") {
			assert.Contains(t, kinds, strings.TrimSuffix(gvk.Kind, "List"))
		}
	}
	for group, kinds := range want {
		for _, kind := range kinds {
			versions := scheme.VersionsForGroupKind(schema.GroupKind{Group: group, Kind: kind})
			assert.Len(t, versions, 1, "%s %s", group, kind)
			assert.Len(t, scheme.VersionsForGroupKind(schema.GroupKind{Group: group, Kind: kind + "List"}), 1, "%s %sList", group, kind)
		}
	}
}

// Zero values are not encoded: the schema rejects a selector {nodeSelectorTerms: null}.
func TestZeroValuesAreNotEncoded(t *testing.T) {
	for name, tc := range map[string]struct {
		object any
		want   string
	}{
		"NamespaceOffloading without selector": {&offloadingv1beta1.NamespaceOffloadingSpec{}, "{}\n"},
		"status that was never written":        {&offloadingv1beta1.ShadowPod{}, "metadata: {}\nspec:\n  pod:\n    containers: null\n"},
		"VirtualNode condition":                {&offloadingv1beta1.VirtualNodeCondition{Type: "Node", Status: "None"}, "status: None\ntype: Node\n"},
		"selector with no term":                {&offloadingv1beta1.NamespaceOffloadingSpec{ClusterSelector: corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{}}}, "clusterSelector:\n  nodeSelectorTerms: []\n"},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := yaml.Marshal(tc.object)
			require.NoError(t, err)
			assert.Equal(t, tc.want, string(raw))
		})
	}
}

// A copied patch does not change with its original.
func TestDeepCopiesAreDeep(t *testing.T) {
	node := &offloadingv1beta1.VirtualNode{Spec: offloadingv1beta1.VirtualNodeSpec{OffloadingPatch: &offloadingv1beta1.OffloadingPatch{
		NodeSelector: map[string]string{"a": "b"},
	}}}
	other := node.DeepCopy()
	require.True(t, reflect.DeepEqual(node, other))
	node.Spec.OffloadingPatch.NodeSelector["a"] = "c"
	assert.Equal(t, "b", other.Spec.OffloadingPatch.NodeSelector["a"])
}
