package namespaceoffloading

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// withdrawalGrace is how long a mapping is kept after the last virtual node stopped matching without
// a change of the NamespaceOffloading or a VirtualNode.
const withdrawalGrace = time.Minute

// Reasons of the condition OffloadingRequired for a mapping that is kept although no virtual node
// matches.
const (
	reasonVirtualNodeMissing = "VirtualNodeMissing"
	reasonWithdrawalPending  = "WithdrawalPending"
)

// Hold describes why a mapping is kept although no virtual node of its cluster matches.
type Hold struct {
	// Reason and Message are those of the condition OffloadingRequired.
	Reason, Message string
	// Remaining is the time until the mapping is withdrawn, or zero if it is not withdrawn.
	Remaining time.Duration
}

// Retain reports whether a mapping is kept although no virtual node matches, and why. The provider
// deletes the namespace of a withdrawn mapping. Therefore a mapping is withdrawn only if every
// VirtualNode that uses the NamespaceMap exists and does not match, or has been withdrawn. It is
// pure.
//
// Expected is true if a Node of the cluster would match with the labels of its VirtualNode, which
// the virtual kubelet restores.
func Retain(nso *offloadingv1beta1.NamespaceOffloading, nm *offloadingv1beta1.NamespaceMap, cluster string,
	virtualNodes []offloadingv1beta1.VirtualNode, expected bool, now time.Time) (*Hold, bool) {
	if expected {
		return nil, true
	}
	if missing := missingVirtualNodes(nm, cluster, virtualNodes); len(missing) > 0 {
		return &Hold{Reason: reasonVirtualNodeMissing, Message: fmt.Sprintf("The namespace is kept: %s was deleted without being withdrawn. "+
			"Create it again and delete it, or delete this NamespaceOffloading.", strings.Join(missing, ", "))}, true
	}
	if nso.Generation != nso.Status.ObservedGeneration {
		return nil, false // The selector may have changed.
	}
	since := now
	for _, c := range nso.Status.RemoteNamespacesConditions[nm.Name] {
		if c.Type == offloadingv1beta1.NamespaceOffloadingRequired && c.Status == corev1.ConditionTrue && c.Reason == reasonWithdrawalPending {
			since = c.LastTransitionTime.Time
		}
	}
	remaining := since.Add(withdrawalGrace).Sub(now)
	if remaining <= 0 {
		return nil, false
	}
	return &Hold{Reason: reasonWithdrawalPending, Remaining: remaining, Message: fmt.Sprintf("No virtual node of this cluster matches the cluster selector any more. "+
		"The remote namespace is deleted unless one matches within %s.", withdrawalGrace)}, true
}

// missingVirtualNodes returns the VirtualNodes that use a NamespaceMap and do not exist.
func missingVirtualNodes(nm *offloadingv1beta1.NamespaceMap, cluster string, virtualNodes []offloadingv1beta1.VirtualNode) []string {
	existing := map[string]bool{}
	for i := range virtualNodes {
		if vn := &virtualNodes[i]; string(vn.Spec.ClusterID) == cluster {
			existing[client.ObjectKeyFromObject(vn).String()] = true
		}
	}
	if len(existing) == 0 && len(nm.VirtualNodes()) == 0 {
		return []string{fmt.Sprintf("the VirtualNode of cluster %q", cluster)}
	}
	missing := slices.DeleteFunc(nm.VirtualNodes(), func(name string) bool { return existing[name] })
	for i := range missing {
		missing[i] = "VirtualNode " + missing[i]
	}
	return missing
}
