package custom

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The reasons why a kind is not reflected.
const (
	ReasonNotServedByConsumer = "NotServedByConsumer"
	ReasonNotServedByProvider = "NotServedByProvider"
	ReasonNotNamespaced       = "NotNamespaced"
	ReasonForbidden           = "Forbidden"
	ReasonUnreachable         = "Unreachable"
	ReasonWithdrawing         = "Withdrawing"
	ReasonFailed              = "Failed"
)

// The labels with which ClusterRoles are aggregated into those of virtual kubelets.
const (
	AggregateToLocal  = "longshore.dev/aggregate-to-virtual-kubelet-namespace"
	AggregateToRemote = "longshore.dev/aggregate-to-virtual-kubelet-remote"
)

// diagnose returns why a kind cannot be reflected by what the two API servers serve; both empty if
// it can.
func diagnose(kind schema.GroupVersionKind, providerID string, local, remote served) (reason, message string) {
	switch {
	case local.plural == "":
		return ReasonNotServedByConsumer, notServed("This cluster", kind, local)
	case remote.plural == "":
		return ReasonNotServedByProvider, notServed("Cluster "+providerID, kind, remote)
	case !local.isNamespaced || !remote.isNamespaced:
		return ReasonNotNamespaced, fmt.Sprintf("Objects of kind %s have no namespace. Only kinds with namespaces can be reflected.", kind.Kind)
	case local.plural != remote.plural:
		return ReasonNotServedByProvider, fmt.Sprintf("Kind %s is resource %s in this cluster and %s in cluster %s. The operators must install the same CustomResourceDefinition.",
			kind.Kind, local.plural, remote.plural, providerID)
	default:
		return "", ""
	}
}

func notServed(cluster string, kind schema.GroupVersionKind, s served) string {
	if len(s.versions) == 0 || slices.Contains(s.versions, kind.Version) {
		return fmt.Sprintf("%s does not serve kind %s of %s. Its operator must install the CustomResourceDefinition.",
			cluster, kind.Kind, kind.GroupVersion())
	}
	return fmt.Sprintf("%s does not serve kind %s of %s; it serves group %s in %s. Set spec.version to a version that both clusters serve, or install the CustomResourceDefinition with this version.",
		cluster, kind.Kind, kind.GroupVersion(), kind.Group, strings.Join(s.versions, ", "))
}

// forbidden returns the message about rights that the virtual kubelet does not have.
func forbidden(cluster, namespace, label string, resource schema.GroupResource, missing []access) string {
	rights := make([]string, len(missing))
	for i, right := range missing {
		rights[i] = right.verb + " " + resource.Resource
		if right.subresource != "" {
			rights[i] += "/" + right.subresource
		}
	}
	return fmt.Sprintf("The virtual kubelet may not %s of group %s in namespace %s of %s. The operator of that cluster must create a ClusterRole with these rights and the label %s: \"true\".",
		strings.Join(rights, ", "), resource.Group, namespace, cluster, label)
}
