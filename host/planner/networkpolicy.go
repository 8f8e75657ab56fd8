package planner

import (
	"fmt"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// AddNetworkPolicy adds a NetworkPolicy. One of a file takes the place of that in the cluster.
func (v *Inventory) AddNetworkPolicy(policy *networkingv1.NetworkPolicy) {
	isKnown := slices.ContainsFunc(v.networkPolicies[policy.Namespace], func(known *networkingv1.NetworkPolicy) bool { return known.Name == policy.Name })
	if !isKnown {
		v.networkPolicies[policy.Namespace] = append(v.networkPolicies[policy.Namespace], policy)
	}
}

// DescribeNetworkPolicies returns a warning about the NetworkPolicies that select an offloaded pod, which are not
// reflected; empty for none.
func (v *Inventory) DescribeNetworkPolicies(pod metav1.Object, provider string) string {
	var names []string
	for _, policy := range v.networkPolicies[pod.GetNamespace()] {
		selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
		if err == nil && selector.Matches(labels.Set(pod.GetLabels())) {
			names = append(names, policy.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return fmt.Sprintf("NetworkPolicies that select the pod do not apply in cluster %s, because they are not reflected: %s. The operator of the provider can create them in the remote namespace.",
		provider, strings.Join(names, ", "))
}
