package chart

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/longshore-dev/longshore/host/kit/feed"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// Components and consumers get the rights of the feed with it only, and for its resources only.
func TestTheFeedIsOptIn(t *testing.T) {
	for name, isOn := range map[string]bool{"off": false, "on": true} {
		t.Run(name, func(t *testing.T) {
			objects := render(t, map[string]any{"clusterID": "rome", "provider": map[string]any{"feed": isOn}})
			found := 0
			for _, object := range objects {
				if object.GetKind() == "APIService" || object.GetName() == "longshore-webhook-authentication-reader" {
					found++
				}
			}
			rules := func(name string) []rbacv1.PolicyRule {
				var role rbacv1.ClusterRole
				require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(find(t, objects, "ClusterRole", name).Object, &role))
				return role.Rules
			}
			for _, resource := range feed.Resources() {
				kind, _ := feed.KindOf(resource)
				assert.Equal(t, isOn, grants(rules("liqo-virtual-kubelet-remote-clusterwide"), feed.Group, resource, "watch"), resource)
				if resource != "shadowpods" {
					assert.Equal(t, isOn, grants(rules("longshore-webhook"), kind.Group, resource, "watch"), resource)
				}
			}
			for _, rule := range rules("longshore-webhook") {
				if slices.Contains(rule.Resources, "clusterroles") {
					found++
					assert.Equal(t, []string{authentication.NamespaceRole}, rule.ResourceNames)
				}
			}
			assert.Equal(t, map[bool]int{false: 0, true: 3}[isOn], found)
			assert.Equal(t, isOn, slices.Contains(arguments(t, objects, "longshore-webhook"), "--enable-feed"))
		})
	}
}
