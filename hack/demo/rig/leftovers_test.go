package rig_test

import (
	"maps"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/hack/demo/rig"
)

// inventoryEvery is how often all objects are listed, which takes a good part of a second.
const inventoryEvery = time.Second

// mayAppear are objects that Kubernetes makes and ends by itself, such as certificate requests, an hour
// after they were signed, and ForeignClusters, which say that a cluster is not a peer any more.
var mayAppear = regexp.MustCompile(`^(certificatesigningrequests|endpointslices|events|foreignclusters|pods|replicasets) `)

// inventory returns the kinds, namespaces and names of all objects of a cluster.
func inventory(t planetest.T, c *rig.Cluster) map[string]bool {
	t.Helper()
	kinds, err := discovery.NewDiscoveryClientForConfig(c.Config)
	require.NoError(t, err)
	lists, err := kinds.ServerPreferredResources()
	require.NoError(t, err)
	reader, err := metadata.NewForConfig(c.Config)
	require.NoError(t, err)
	found := map[string]bool{}
	for _, list := range lists {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		require.NoError(t, err)
		for _, resource := range list.APIResources {
			if !slices.Contains(resource.Verbs, "list") || !slices.Contains(resource.Verbs, "delete") {
				continue
			}
			objects, err := reader.Resource(group.WithResource(resource.Name)).List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err, resource.Name)
			for i := range objects.Items {
				found[resource.Name+" "+objects.Items[i].Namespace+"/"+objects.Items[i].Name] = true
			}
		}
	}
	return found
}

func inventories(t *testing.T, r *rig.Rig) map[*rig.Cluster]map[string]bool {
	t.Helper()
	return map[*rig.Cluster]map[string]bool{r.Rome: inventory(t, r.Rome), r.Milan: inventory(t, r.Milan)}
}

// isAsBefore waits until the clusters have the objects that they had before, and no others but those whose
// names match.
func isAsBefore(t *testing.T, before map[*rig.Cluster]map[string]bool, others ...*regexp.Regexp) {
	t.Helper()
	for c, then := range before {
		planetest.Until(t, func(t planetest.T) bool {
			now := inventory(t, c)
			return assert.Empty(t, without(now, then, others)) && assert.Empty(t, without(then, now, others))
		}, patience, inventoryEvery, "the objects of "+c.Name+" are those of before")
	}
}

// without returns the objects of the first that the second has not and that do not match.
func without(first, second map[string]bool, others []*regexp.Regexp) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(first)), func(object string) bool {
		return second[object] || mayAppear.MatchString(object) ||
			slices.ContainsFunc(others, func(other *regexp.Regexp) bool { return other.MatchString(object) })
	})
}
