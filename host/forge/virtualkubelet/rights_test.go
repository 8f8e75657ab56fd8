package virtualkubelet_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
)

func virtualNode() *offloadingv1beta1.VirtualNode {
	return &offloadingv1beta1.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{Name: "mynode", Namespace: "liqo-tenant-milan"},
		Spec:       offloadingv1beta1.VirtualNodeSpec{ClusterID: "milan", KubeconfigSecretRef: &corev1.LocalObjectReference{Name: "kubeconfig"}},
	}
}

// rulesOf returns the rules of the roles among the rights of a virtual kubelet, by their namespace.
func rulesOf(t *testing.T, vn *offloadingv1beta1.VirtualNode) map[string][]rbacv1.PolicyRule {
	t.Helper()
	rules := map[string][]rbacv1.PolicyRule{}
	for _, right := range virtualkubelet.Rights(vn) {
		switch role := right.(type) {
		case *rbacv1.ClusterRole:
			rules[""] = role.Rules
		case *rbacv1.Role:
			rules[role.Namespace] = role.Rules
		default:
			continue
		}
		// A role outside of the cache would be created again at each reconcile.
		assert.True(t, virtualkubelet.RoleSelector().Matches(labels.Set(right.GetLabels())), "%T %s", right, right.GetName())
	}
	require.Len(t, rules, 4)
	return rules
}

func TestRulesRestrictWritesToNames(t *testing.T) {
	for namespace, rules := range rulesOf(t, virtualNode()) {
		for _, rule := range rules {
			if rule.Resources[0] == "events" || len(rule.Verbs) == 1 && rule.Verbs[0] == "create" {
				continue // RBAC cannot restrict by name what is created.
			}
			assert.Len(t, rule.ResourceNames, 1, "namespace %q: %v", namespace, rule)
		}
	}
}

func TestTheOnlySecretOfTheTenantNamespaceIsTheKubeconfig(t *testing.T) {
	secrets := func(vn *offloadingv1beta1.VirtualNode) (names []string) {
		for _, rule := range rulesOf(t, vn)[vn.Namespace] {
			if rule.Resources[0] == "secrets" {
				names = append(names, rule.ResourceNames...)
			}
		}
		return names
	}
	vn := virtualNode()
	assert.Equal(t, []string{"kubeconfig"}, secrets(vn))
	vn.Spec.KubeconfigSecretRef = nil
	assert.Empty(t, secrets(vn))
}
