package status

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/longshore-dev/longshore/cmd/longshorectl/admin"
	"github.com/longshore-dev/longshore/cmd/longshorectl/resourceslice"
	"github.com/longshore-dev/longshore/host/kit/plaintext"
	"github.com/longshore-dev/longshore/host/kit/quantity"
	"github.com/longshore-dev/longshore/host/planner"
)

// capacity returns the virtual nodes whose pods request more than they have, and those whose capacity is
// held by pods that no node of the provider takes.
func capacity(s *snapshot) []Problem {
	var found []Problem
	for i := range s.virtualNodes.Items {
		vn := &s.virtualNodes.Items[i]
		problem := Problem{Peer: string(vn.Spec.ClusterID), Object: admin.Describe(vn), Actor: string(s.id)}
		isOn := func(node string) bool { return node == vn.Name }
		if over := exceeding(usedOn(s, isOn), vn.Spec.ResourceQuota.Hard); over != "" {
			problem.Message = "Its pods request more than it has: " + over + "."
			problem.Action = "Delete pods, or enlarge its ResourceSlice or spec.resourceQuota."
			found = append(found, problem)
		}
		var pods []string
		held := corev1.ResourceList{}
		for j := range s.pods {
			if pod := &s.pods[j]; isOn(pod.Spec.NodeName) && planner.HoldsCapacity(pod) {
				pods = append(pods, pod.Namespace+"/"+pod.Name)
				add(held, requestsOf(pod))
			}
		}
		if len(pods) == 0 {
			continue
		}
		problem.Message = fmt.Sprintf("No node of the provider takes pods that hold %s of it: %s.", amounts(held), plaintext.Names(pods, named))
		problem.Action = "Delete them, or let them request what a node of the provider has: longshorectl explain says what is missing."
		found = append(found, problem)
	}
	return found
}

// excessiveGrants returns the grants of this cluster that exceed what all its Nodes have.
func excessiveGrants(s *snapshot) []Problem {
	if len(s.realNodes.Items) == 0 {
		return nil
	}
	all := corev1.ResourceList{}
	for i := range s.realNodes.Items {
		add(all, s.realNodes.Items[i].Status.Allocatable)
	}
	var found []Problem
	for i := range s.slices.Items {
		slice := &s.slices.Items[i]
		if !resourceslice.IsCopy(slice) || !resourceslice.IsAccepted(slice) {
			continue
		}
		for name := range slice.Status.Resources {
			if _, isKnown := all[name]; !isKnown && strings.Contains(string(name), "/") {
				all[name] = resource.Quantity{} // An extended resource that no Node has.
			}
		}
		if over := exceeding(slice.Status.Resources, all); over != "" {
			found = append(found, Problem{
				Peer: string(peerOf(s, slice)), Object: admin.Describe(slice), Actor: string(s.id),
				Message: "It grants more than all Nodes of this cluster have: " + over + ".",
				Action:  "Grant less, with a policy for ResourceSlices, or add Nodes: pods of the consumer stay Pending.",
			})
		}
	}
	return found
}

// exceeding says which amounts exceed those that there are, as "cpu 60 of 4", or "". A resource without a
// limit is not compared.
func exceeding(used, limits corev1.ResourceList) string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(used)) {
		limit, isLimited := limits[name]
		if amount := used[name]; isLimited && amount.Cmp(limit) > 0 {
			texts = append(texts, fmt.Sprintf("%s %s of %s", name, quantity.Text(amount), quantity.Text(limit)))
		}
	}
	return strings.Join(texts, ", ")
}
