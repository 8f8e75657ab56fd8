package planetest

import (
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/longshore-dev/longshore/charts"
)

// crdsTimeout is how long InstallCRDs waits until the kinds are served.
const crdsTimeout = 2 * time.Minute

// InstallCRDs creates the chart's definitions of the kinds with these plural names, and waits
// until they are served. Without names, it installs all but those of fabrics, of networking.liqo.io,
// which take an API server as long as all others. Those that exist stay.
func InstallCRDs(tb testing.TB, config *rest.Config, plurals ...string) {
	tb.Helper()
	config = rest.CopyConfig(config)
	config.QPS = -1
	c, err := dynamic.NewForConfig(config)
	require.NoError(tb, err)
	files, err := fs.Glob(charts.Longshore, "longshore/crds/*.yaml")
	require.NoError(tb, err)
	var served []schema.GroupVersionResource
	for _, file := range files {
		raw, err := charts.Longshore.ReadFile(file)
		require.NoError(tb, err)
		crd := &unstructured.Unstructured{}
		require.NoError(tb, yaml.Unmarshal(raw, crd))
		group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
		plural := strings.TrimSuffix(path.Base(file), ".yaml")
		isOfFabric := group == "networking.liqo.io" && plural != "configurations" && plural != "connections"
		if len(plurals) == 0 && isOfFabric || len(plurals) > 0 && !slices.Contains(plurals, plural) {
			continue
		}
		_, err = c.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}).
			Create(tb.Context(), crd, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			require.NoError(tb, err)
		}
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		version, _ := versions[0].(map[string]any)
		name, _ := version["name"].(string)
		served = append(served, schema.GroupVersionResource{Group: group, Version: name, Resource: plural})
	}
	require.Len(tb, served, max(len(plurals), len(served)), "the chart has all of %q", plurals)
	require.NotEmpty(tb, served)
	// A kind can be listed before clients discover it.
	discovered, err := discovery.NewDiscoveryClientForConfig(config)
	require.NoError(tb, err)
	for _, resource := range served {
		require.Eventually(tb, func() bool {
			if _, err := c.Resource(resource).List(tb.Context(), metav1.ListOptions{Limit: 1}); err != nil {
				return false
			}
			list, err := discovered.ServerResourcesForGroupVersion(resource.GroupVersion().String())
			return err == nil && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == resource.Resource })
		}, crdsTimeout, poll, "%s is served", resource)
	}
}
