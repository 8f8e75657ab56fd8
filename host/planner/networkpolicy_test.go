package planner_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAPlanNamesTheNetworkPoliciesThatStay(t *testing.T) {
	add := func(namespace, name, app string) *networkingv1.NetworkPolicy {
		policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		if app != "" {
			policy.Spec.PodSelector.MatchLabels = map[string]string{"app": app}
		}
		return policy
	}
	const warning = "NetworkPolicies that select the pod do not apply in cluster milan, because they are not reflected: deny, web. The operator of the provider can create them in the remote namespace."
	for name, tc := range map[string]struct {
		policies []*networkingv1.NetworkPolicy
		want     bool
	}{
		"two that select the pod":  {[]*networkingv1.NetworkPolicy{add("shop", "web", "web"), add("shop", "deny", ""), add("shop", "deny", "")}, true},
		"one of another pod":       {[]*networkingv1.NetworkPolicy{add("shop", "db", "db")}, false},
		"one of another namespace": {[]*networkingv1.NetworkPolicy{add("lab", "deny", "")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			facts := shop()
			for _, policy := range tc.policies {
				facts.Inventory.AddNetworkPolicy(policy)
			}
			planned := predict(t, facts, web())
			if tc.want {
				assert.Contains(t, planned.Warnings, warning)
			} else {
				assert.NotContains(t, planned.Warnings, warning)
				assert.Empty(t, planned.Warnings)
			}
		})
	}
}
