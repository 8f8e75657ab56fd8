package resourcereflection

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/kit/events"
)

// The reasons of the conditions, beside those of the virtual kubelets' reports.
const (
	// ReasonReflecting is set when every virtual kubelet that reports reflects the kind.
	ReasonReflecting = "Reflecting"
	// ReasonNotObserved is set while no virtual kubelet reports.
	ReasonNotObserved = "NotObserved"
	// ReasonBehind is set when a virtual kubelet reports an earlier generation.
	ReasonBehind = "Behind"
	// ReasonMatches and ReasonDiffers are those of the condition SchemaMatches.
	ReasonMatches = "Matches"
	ReasonDiffers = "Differs"
)

// maxMessage bounds the message of a condition, in bytes; the status has the rest.
const maxMessage = 2000

// Summarize returns the status of a ResourceReflection, apart from the times of its conditions.
func Summarize(reflection *policyv1alpha1.ResourceReflection, components []policyv1alpha1.PolicyComponent) policyv1alpha1.ResourceReflectionStatus {
	out := policyv1alpha1.ResourceReflectionStatus{ObservedGeneration: reflection.Generation}
	for i := range components {
		for _, o := range components[i].Status.Reflections {
			if o.Name != reflection.Name || o.UID != reflection.UID {
				continue
			}
			out.VirtualNodes = append(out.VirtualNodes, policyv1alpha1.VirtualNodeReflection{
				Name: components[i].Status.Component, Generation: o.Generation, Reason: o.Reason, Message: o.Message,
				SchemaDifferences: o.SchemaDifferences, Reflected: o.Reflected,
			})
		}
	}
	slices.SortFunc(out.VirtualNodes, func(a, b policyv1alpha1.VirtualNodeReflection) int { return strings.Compare(a.Name, b.Name) })
	out.Conditions = []metav1.Condition{ready(reflection, out.VirtualNodes), schemaMatches(reflection, out.VirtualNodes)}
	return out
}

func ready(reflection *policyv1alpha1.ResourceReflection, nodes []policyv1alpha1.VirtualNodeReflection) metav1.Condition {
	out := metav1.Condition{Type: policyv1alpha1.ReadyCondition, Status: metav1.ConditionFalse, ObservedGeneration: reflection.Generation}
	if len(nodes) == 0 {
		out.Reason, out.Message = ReasonNotObserved, "No virtual kubelet has reported."
		return out
	}
	var problems []string
	for i := range nodes {
		reason, message := nodes[i].Reason, nodes[i].Message
		if reason == "" && nodes[i].Generation != reflection.Generation {
			reason, message = ReasonBehind, fmt.Sprintf("Reflects generation %d.", nodes[i].Generation)
		}
		if reason == "" {
			continue
		}
		if out.Reason == "" {
			out.Reason = reason
		}
		problems = append(problems, nodes[i].Name+": "+message)
	}
	if len(problems) > 0 {
		out.Message = events.Cut(strings.Join(problems, " "), maxMessage)
		return out
	}
	out.Status, out.Reason = metav1.ConditionTrue, ReasonReflecting
	out.Message = fmt.Sprintf("Virtual kubelets that reflect the kind: %d.", len(nodes))
	return out
}

func schemaMatches(reflection *policyv1alpha1.ResourceReflection, nodes []policyv1alpha1.VirtualNodeReflection) metav1.Condition {
	out := metav1.Condition{Type: policyv1alpha1.SchemaMatchesCondition, Status: metav1.ConditionTrue, ObservedGeneration: reflection.Generation, Reason: ReasonMatches}
	var differences []string
	for i := range nodes {
		if text := nodes[i].SchemaDifferences; text != "" {
			differences = append(differences, nodes[i].Name+": "+text)
		}
	}
	if len(differences) > 0 {
		out.Status, out.Reason = metav1.ConditionFalse, ReasonDiffers
		out.Message = events.Cut("Objects that have these fields are refused or lose them. "+strings.Join(differences, " "), maxMessage)
	}
	return out
}

// isReflected reports whether a virtual kubelet may have remote objects.
func isReflected(status *policyv1alpha1.ResourceReflectionStatus) bool {
	return slices.ContainsFunc(status.VirtualNodes, func(v policyv1alpha1.VirtualNodeReflection) bool { return v.Reflected })
}
