package chart_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/hack/demo/chart"
	"github.com/longshore-dev/longshore/host/consumer/reflection/custom"
)

// aggregateTo are the labels of ClusterRoles whose rules Kubernetes adds to the roles of virtual
// kubelets, by role.
var aggregateTo = map[string]string{
	"longshore-virtual-kubelet-namespace": custom.AggregateToLocal,
	"liqo-virtual-kubelet-remote":         custom.AggregateToRemote,
}

// awaitAggregation waits until Kubernetes has filled in the roles of virtual kubelets.
func awaitAggregation(t *testing.T, c client.Client) {
	t.Helper()
	for name := range aggregateTo {
		planetest.Until(t, func(t planetest.T) bool {
			role := &rbacv1.ClusterRole{}
			require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: name}, role))
			return len(role.Rules) > 0
		}, established, poll, name)
	}
}

// applyRoles applies the chart's accounts and roles, also those of a separate replicator.
func applyRoles(t *testing.T, admin client.Client, objects []*unstructured.Unstructured) {
	t.Helper()
	separate, err := chart.Render(map[string]any{"clusterID": "rome", "replicator": map[string]any{"separate": true}}, chart.Options{})
	require.NoError(t, err)
	separate = slices.DeleteFunc(separate, func(object *unstructured.Unstructured) bool { return object.GetName() != "longshore-replicator" })
	var applied []client.Object
	for _, object := range slices.Concat(objects, separate) {
		switch object.GetKind() {
		case "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding":
			require.NoError(t, apply(t, admin, object), object.GetName())
			applied = append(applied, object)
		}
	}
	awaitAggregation(t, admin)
	planetest.AwaitRights(t, admin, applied...)
}

// certificateRole is a ClusterRole that an operator adds to a role of virtual kubelets.
func certificateRole(label string) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "certificates", Labels: map[string]string{label: "true"}},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"cert-manager.io"}, Resources: []string{"certificates"}, Verbs: []string{"get", "list", "watch"}}},
	}
}

// An operator adds the rights on a kind with a ClusterRole of a label.
func testAggregation(t *testing.T, admin client.Client) {
	t.Helper()
	for name, label := range aggregateTo {
		before := &rbacv1.ClusterRole{}
		require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Name: name}, before))
		added := certificateRole(label)
		require.NoError(t, admin.Create(t.Context(), added))
		hasRules := func(want []rbacv1.PolicyRule) func(planetest.T) bool {
			return func(t planetest.T) bool {
				role := &rbacv1.ClusterRole{}
				require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Name: name}, role))
				return len(role.Rules) == len(want) && len(subtract(want, role.Rules)) == 0
			}
		}
		planetest.Until(t, hasRules(append(slices.Clone(before.Rules), added.Rules...)), established, poll, "the rule is added to %s", name)
		require.NoError(t, admin.Delete(t.Context(), added))
		planetest.Until(t, hasRules(before.Rules), established, poll, "the rule is removed from %s", name)
	}
}

// subtract returns the rules of a that are not in b.
func subtract(a, b []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	return slices.DeleteFunc(slices.Clone(a), func(rule rbacv1.PolicyRule) bool {
		return slices.ContainsFunc(b, func(other rbacv1.PolicyRule) bool { return equality.Semantic.DeepEqual(rule, other) })
	})
}
