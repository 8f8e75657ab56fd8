package chart

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ipamValues are the values of a cluster that allocates networks.
func ipamValues(more map[string]any) map[string]any {
	ipam := map[string]any{"enabled": true, "serviceCIDR": "10.96.0.0/12"}
	maps.Copy(ipam, more)
	return map[string]any{"clusterID": "rome", "podCIDRs": []any{"10.244.0.0/16", "10.245.0.0/16"}, "ipam": ipam}
}

// networks returns the CIDRs of the Networks of a release, with their labels and preallocated
// addresses.
func networks(t *testing.T, objects []*unstructured.Unstructured) map[string][]any {
	t.Helper()
	found := map[string][]any{}
	for _, object := range objects {
		if object.GetKind() != "Network" {
			continue
		}
		spec, _, err := unstructured.NestedMap(object.Object, "spec")
		require.NoError(t, err)
		labels := object.GetLabels()
		assert.Equal(t, "true", object.GetAnnotations()["liqo.io/preinstalled"])
		found[object.GetName()] = []any{
			spec["cidr"], labels["ipam.liqo.io/network-type"],
			labels["ipam.liqo.io/network-not-remapped"] == "true", labels["ipam.liqo.io/network-shared"] == "true", spec["preAllocated"],
		}
	}
	return found
}

func TestTheNetworksOfTheCluster(t *testing.T) {
	assert.Empty(t, networks(t, render(t, map[string]any{"clusterID": "rome", "podCIDRs": []any{"10.244.0.0/16"}})))
	objects := render(t, ipamValues(nil))
	assert.Equal(t, map[string][]any{
		"pod-cidr-10-244-0-0-16": {"10.244.0.0/16", "pod-cidr", true, true, nil},
		"pod-cidr-10-245-0-0-16": {"10.245.0.0/16", "pod-cidr", true, true, nil},
		"service-cidr":           {"10.96.0.0/12", "service-cidr", true, true, nil},
		"external-cidr":          {"10.70.0.0/16", "external-cidr", false, false, 1.0},
		"internal-cidr":          {"10.80.0.0/16", "internal-cidr", false, false, nil},
	}, networks(t, objects))
	assert.Contains(t, arguments(t, objects, "longshore-manager"), "--enable-ipam")
	assert.Contains(t, arguments(t, objects, "longshore-manager"), "--ipam-pools=10.0.0.0/8,192.168.0.0/16,172.16.0.0/12")

	own := networks(t, render(t, ipamValues(map[string]any{
		"externalCIDR": "10.71.0.0/16", "internalCIDR": "10.81.0.0/16", "reservedSubnets": []any{"192.168.1.0/24"},
	})))
	assert.Equal(t, []any{"10.71.0.0/16", "external-cidr", true, false, 1.0}, own["external-cidr"])
	assert.Equal(t, []any{"10.81.0.0/16", "internal-cidr", true, false, nil}, own["internal-cidr"])
	assert.Equal(t, []any{"192.168.1.0/24", "reserved", true, true, nil}, own["reserved-192-168-1-0-24"])
}

func TestIPAMNeedsTheNetworksOfTheCluster(t *testing.T) {
	for missing, values := range map[string]map[string]any{
		"ipam.serviceCIDR": {"clusterID": "rome", "podCIDRs": []any{"10.244.0.0/16"}, "ipam": map[string]any{"enabled": true}},
		"podCIDRs":         {"clusterID": "rome", "ipam": map[string]any{"enabled": true, "serviceCIDR": "10.96.0.0/12"}},
	} {
		_, err := Render(values, Options{})
		assert.ErrorContains(t, err, "ipam.enabled needs "+missing)
	}
}

// Without it, the manager may not write the objects of networks.
func TestTheRightsOfIPAM(t *testing.T) {
	for name, tc := range map[string]struct {
		values map[string]any
		want   bool
	}{
		"with ipam":    {ipamValues(nil), true},
		"without ipam": {map[string]any{"clusterID": "rome"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			role := find(t, render(t, tc.values), "ClusterRole", "longshore-manager")
			rules, _, err := unstructured.NestedSlice(role.Object, "rules")
			require.NoError(t, err)
			isGranted := false
			for _, rule := range rules {
				resources, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "resources")
				for _, resource := range resources {
					isGranted = isGranted || resource == "networks/status"
				}
			}
			assert.Equal(t, tc.want, isGranted)
		})
	}
}
