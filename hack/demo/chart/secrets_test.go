package chart

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// readsSecrets reports whether rules let a subject read Secrets that they do not name. A patch
// returns the object, so that it counts.
func readsSecrets(rules []rbacv1.PolicyRule) bool {
	has := func(list []string, names ...string) bool {
		return slices.ContainsFunc(list, func(entry string) bool { return entry == "*" || slices.Contains(names, entry) })
	}
	return slices.ContainsFunc(rules, func(rule rbacv1.PolicyRule) bool {
		return has(rule.APIGroups, "") && has(rule.Resources, "secrets") && has(rule.Verbs, "get", "list", "watch", "patch", "update")
	})
}

// clusterWide returns the subjects that a rendered chart lets read the Secrets of all namespaces.
func clusterWide(t *testing.T, objects []*unstructured.Unstructured) []string {
	t.Helper()
	roles := map[string]*rbacv1.ClusterRole{}
	var bindings []*rbacv1.ClusterRoleBinding
	for _, object := range objects {
		switch object.GetKind() {
		case "ClusterRole":
			role := &rbacv1.ClusterRole{}
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, role))
			roles[role.Name] = role
		case "ClusterRoleBinding":
			binding := &rbacv1.ClusterRoleBinding{}
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, binding))
			bindings = append(bindings, binding)
		}
	}
	require.NotEmpty(t, bindings)
	var subjects []string
	for _, binding := range bindings {
		role := roles[binding.RoleRef.Name]
		require.NotNil(t, role, "ClusterRole %s is not rendered", binding.RoleRef.Name)
		rules := slices.Clone(role.Rules)
		if role.AggregationRule != nil {
			for _, selector := range role.AggregationRule.ClusterRoleSelectors {
				selects, err := metav1.LabelSelectorAsSelector(&selector)
				require.NoError(t, err)
				for _, part := range roles {
					if selects.Matches(labels.Set(part.Labels)) {
						rules = append(rules, part.Rules...)
					}
				}
			}
		}
		if !readsSecrets(rules) {
			continue
		}
		for _, subject := range binding.Subjects {
			subjects = append(subjects, subject.Name)
		}
	}
	return subjects
}

func TestNoSubjectReadsTheSecretsOfAllNamespaces(t *testing.T) {
	on := map[string]any{"enabled": true}
	for name, values := range map[string]map[string]any{
		"by default":             {},
		"with all of it":         {"storage": on, "ipam": map[string]any{"enabled": true, "serviceCIDR": "10.96.0.0/16"}, "podCIDRs": []any{"10.10.0.0/16"}},
		"a separate replicator":  {"replicator": map[string]any{"separate": true}},
		"tokens for remote pods": {"virtualKubelet": map[string]any{"apiServerAccess": map[string]any{"overNetwork": true}}},
	} {
		t.Run(name, func(t *testing.T) {
			values["clusterID"] = "rome"
			assert.Empty(t, clusterWide(t, render(t, values)))
		})
	}
}
