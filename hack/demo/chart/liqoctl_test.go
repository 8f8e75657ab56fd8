package chart

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// liqoctl info, and liqoctl generate peering-user, read version, labels and address of a cluster from
// this Deployment. They search by these labels, and read the first argument of each name.
func TestLiqoctlFindsTheManager(t *testing.T) {
	found := labels.SelectorFromSet(labels.Set{
		"app.kubernetes.io/name": "controller-manager", "app.kubernetes.io/component": "controller-manager",
	})
	var managers []appsv1.Deployment
	for _, object := range render(t, map[string]any{
		"clusterID": "rome",
		"apiServer": map[string]any{"address": "https://rome.example:6443"},
		"provider":  map[string]any{"clusterLabels": map[string]any{"region": "eu", "tier": "gold"}},
	}) {
		if object.GetKind() != "Deployment" || !found.Matches(labels.Set(object.GetLabels())) {
			continue
		}
		var deployment appsv1.Deployment
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &deployment))
		managers = append(managers, deployment)
	}
	require.Len(t, managers, 1)
	spec := managers[0].Spec
	assert.Equal(t, "longshore-manager", spec.Selector.MatchLabels["app.kubernetes.io/name"], "the selector of a Deployment cannot change")
	container := spec.Template.Spec.Containers[0]
	assert.Equal(t, "controller-manager", container.Name)
	assert.Regexp(t, `:[^/:]+$`, container.Image, "the version is the tag")
	for name, want := range map[string]string{"--api-server-address-override": "https://rome.example:6443", "--cluster-labels": "region=eu,tier=gold"} {
		assert.Equal(t, want, firstArgument(container.Args, name), name)
	}
}

// liqoctl unpeer ends at the first request that the provider denies: a kubeconfig of a peering user has
// to allow all of them.
func TestAPeeringUserMayUnpeerWithLiqoctl(t *testing.T) {
	var role rbacv1.ClusterRole
	object := find(t, render(t, map[string]any{"clusterID": "rome"}), "ClusterRole", "liqo-peering-user-tenant-ns")
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role))
	for _, request := range []struct{ group, resource, verb string }{
		{"", "namespaces", "get"}, {"authentication.liqo.io", "tenants", "list"}, {"authentication.liqo.io", "tenants", "delete"},
		{"networking.liqo.io", "gatewayclients", "list"}, {"networking.liqo.io", "gatewayclients", "delete"},
		{"networking.liqo.io", "gatewayservers", "list"}, {"networking.liqo.io", "gatewayservers", "delete"},
		{"networking.liqo.io", "configurations", "list"}, {"networking.liqo.io", "configurations", "delete"},
	} {
		assert.True(t, grants(role.Rules, request.group, request.resource, request.verb), "%s %s", request.verb, request.resource)
	}
}

func firstArgument(args []string, name string) string {
	for _, arg := range args {
		if value, ok := strings.CutPrefix(arg, name+"="); ok {
			return value
		}
	}
	return ""
}
