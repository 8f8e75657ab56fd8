package namespaceoffloading

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/local"
	"github.com/longshore-dev/longshore/host/kit/events"
)

// RemoteName returns the name of the namespace on the provider.
func RemoteName(name string, spec *offloadingv1beta1.NamespaceOffloadingSpec, home string) string {
	switch spec.NamespaceMappingStrategy {
	case offloadingv1beta1.EnforceSameNameMappingStrategyType:
		return name
	case offloadingv1beta1.SelectedNameMappingStrategyType:
		return spec.RemoteNamespaceName
	default:
		return name + "-" + home
	}
}

// Selected returns the provider clusters with a virtual node that matches the selector. A
// selector without terms matches all.
func Selected(selector *corev1.NodeSelector, virtualNodes []offloadingv1beta1.VirtualNode, nodes map[string]*corev1.Node) (map[string]bool, error) {
	match := func(*corev1.Node) (bool, error) { return true, nil }
	if len(selector.NodeSelectorTerms) > 0 {
		parsed, err := nodeaffinity.NewNodeSelector(selector)
		if err != nil {
			return nil, fmt.Errorf("spec.clusterSelector is invalid: %w", err)
		}
		match = func(node *corev1.Node) (bool, error) { return parsed.Match(node), nil }
	}
	selected := map[string]bool{}
	for i := range virtualNodes {
		vn := &virtualNodes[i]
		node := nodes[vn.Name]
		if node == nil {
			node = local.InitialNode(vn)
		}
		matches, err := match(node)
		if err != nil {
			return nil, fmt.Errorf("matching virtual node %q: %w", vn.Name, err)
		}
		id := string(vn.Spec.ClusterID)
		selected[id] = selected[id] || matches
	}
	return selected, nil
}

// Status computes conditions and phase from the NamespaceMaps. Missing are selected
// providers without a NamespaceMap, whose name will be their ID. Holds are mappings that are
// kept although no virtual node matches. Unchanged conditions keep their transition time.
func Status(nso *offloadingv1beta1.NamespaceOffloading, remoteName string, byCluster map[string]*offloadingv1beta1.NamespaceMap, missing []string, holds map[string]*Hold, now metav1.Time) offloadingv1beta1.NamespaceOffloadingStatus {
	status := offloadingv1beta1.NamespaceOffloadingStatus{
		RemoteNamespaceName:        remoteName,
		ObservedGeneration:         nso.Generation,
		RemoteNamespacesConditions: map[string]offloadingv1beta1.RemoteNamespaceConditions{},
		Conditions:                 nso.Status.Conditions,
	}
	var required, ready, failed int
	for id, nm := range byCluster {
		_, desired := nm.Spec.DesiredMapping[nso.Namespace]
		current, known := nm.Status.CurrentMapping[nso.Namespace]
		if !nso.DeletionTimestamp.IsZero() && !desired && !known {
			continue
		}
		previous := nso.Status.RemoteNamespacesConditions[nm.Name]
		conditions := offloadingv1beta1.RemoteNamespaceConditions{requiredCondition(nso, desired, holds[id], previous, now)}
		if desired || known {
			conditions = append(conditions, readyCondition(nm, nso.Namespace, previous, now))
		}
		status.RemoteNamespacesConditions[nm.Name] = conditions
		if !desired {
			continue
		}
		required++
		switch {
		case current.IsEnding(), current.Phase == offloadingv1beta1.MappingCreationLoopBackOff, isAnother(nm, nso.Namespace):
			failed++
		case current.Phase == offloadingv1beta1.MappingAccepted:
			ready++
		}
	}
	for _, id := range missing {
		previous := nso.Status.RemoteNamespacesConditions[id]
		waiting := readyCondition(&offloadingv1beta1.NamespaceMap{}, nso.Namespace, previous, now)
		waiting.Message = "The cluster has no NamespaceMap yet. See the conditions of its VirtualNode."
		status.RemoteNamespacesConditions[id] = offloadingv1beta1.RemoteNamespaceConditions{requiredCondition(nso, true, nil, previous, now), waiting}
		required++
	}
	status.OffloadingPhase = phase(nso, required, ready, failed)
	return status
}

func phase(nso *offloadingv1beta1.NamespaceOffloading, required, ready, failed int) offloadingv1beta1.OffloadingPhaseType {
	switch {
	case !nso.DeletionTimestamp.IsZero():
		return offloadingv1beta1.TerminatingOffloadingPhaseType
	case required == 0:
		return offloadingv1beta1.NoClusterSelectedOffloadingPhaseType
	case ready == required:
		return offloadingv1beta1.ReadyOffloadingPhaseType
	case failed == required:
		return offloadingv1beta1.AllFailedOffloadingPhaseType
	case failed > 0:
		return offloadingv1beta1.SomeFailedOffloadingPhaseType
	default:
		return offloadingv1beta1.InProgressOffloadingPhaseType
	}
}

func requiredCondition(nso *offloadingv1beta1.NamespaceOffloading, desired bool, hold *Hold, previous offloadingv1beta1.RemoteNamespaceConditions, now metav1.Time) offloadingv1beta1.RemoteNamespaceCondition {
	c := offloadingv1beta1.RemoteNamespaceCondition{
		Type: offloadingv1beta1.NamespaceOffloadingRequired, Status: corev1.ConditionFalse, Reason: "ClusterNotSelected",
		Message: "No virtual node of this cluster matches the cluster selector.",
	}
	if desired {
		c.Status, c.Reason, c.Message = corev1.ConditionTrue, "ClusterSelected", "The cluster selector matches this cluster."
	}
	if !desired && !nso.DeletionTimestamp.IsZero() {
		c.Reason, c.Message = "Deleting", "The NamespaceOffloading is being deleted."
	}
	if hold != nil {
		c.Reason, c.Message = hold.Reason, hold.Message
	}
	return keepTime(c, previous, now)
}

func readyCondition(nm *offloadingv1beta1.NamespaceMap, namespace string, previous offloadingv1beta1.RemoteNamespaceConditions, now metav1.Time) offloadingv1beta1.RemoteNamespaceCondition {
	c := offloadingv1beta1.RemoteNamespaceCondition{
		Type: offloadingv1beta1.NamespaceReady, Status: corev1.ConditionFalse, Reason: "Creating",
		Message: fmt.Sprintf("The provider has not responded yet. See the events of NamespaceMap %s/%s.", nm.Namespace, nm.Name),
	}
	if current, known := nm.Status.CurrentMapping[namespace]; known {
		c.Reason = string(current.Phase)
		switch {
		case isAnother(nm, namespace):
			c.Reason = "AnotherNamespace"
			c.Message = fmt.Sprintf("Cluster %s reports namespace %q instead of %q, to which nothing is sent. Ask its administrator to correct that.",
				nm.Name, events.Cut(current.RemoteNamespace, maxName), nm.Spec.DesiredMapping[namespace])
		case current.IsEnding():
			c.Reason = offloadingv1beta1.RemoteNamespaceTerminatingReason
			c.Message = fmt.Sprintf("Cluster %s deletes namespace %q, and all pods in it, although it is requested. It says: %s",
				nm.Name, current.RemoteNamespace, events.Cut(current.Message, maxMessage))
		case current.Phase == offloadingv1beta1.MappingAccepted:
			c.Status, c.Reason, c.Message = corev1.ConditionTrue, "NamespaceCreated", "The remote namespace exists."
		case current.Phase == offloadingv1beta1.MappingCreationLoopBackOff:
			c.Message = failureMessage(nm, namespace)
		case current.Phase == offloadingv1beta1.MappingTerminating:
			c.Message = terminatingMessage(&current, nm.Name)
		}
	}
	return keepTime(c, previous, now)
}

// isAnother reports whether a provider has another namespace for one of this cluster than is asked for.
func isAnother(nm *offloadingv1beta1.NamespaceMap, namespace string) bool {
	desired := nm.Spec.DesiredMapping[namespace]
	current, known := nm.Status.CurrentMapping[namespace]
	return known && desired != "" && current.RemoteNamespace != desired
}

// terminatingMessage says what a remote namespace that is being deleted waits for, as far as its provider says.
func terminatingMessage(current *offloadingv1beta1.RemoteNamespaceStatus, cluster string) string {
	message := "The remote namespace is being deleted."
	if current.Message == "" {
		return message
	}
	return message + " It waits in cluster " + cluster + ": " + events.Cut(current.Message, maxMessage/2) +
		". Ask the administrator of that cluster to remove the finalizers."
}

// maxMessage bounds a message of the provider in a condition, in bytes.
const maxMessage = 1024

// maxName bounds the name of a namespace that the provider reports, in bytes.
const maxName = 253

// failureMessage returns why the remote namespace was not created and who can correct that.
func failureMessage(nm *offloadingv1beta1.NamespaceMap, namespace string) string {
	remote := nm.Status.CurrentMapping[namespace].RemoteNamespace
	for _, other := range slices.Sorted(maps.Keys(nm.Spec.DesiredMapping)) {
		// An accepted mapping keeps the remote namespace, otherwise the first by name gets it.
		current := nm.Status.CurrentMapping[other]
		isAccepted := current.RemoteNamespace == remote && current.IsAccepted()
		if other != namespace && nm.Spec.DesiredMapping[other] == remote && (isAccepted || other < namespace) {
			return fmt.Sprintf("Namespace %q of this cluster has the remote name %q. Delete this NamespaceOffloading and create it with another name.",
				other, remote)
		}
	}
	if message := nm.Status.CurrentMapping[namespace].Message; message != "" {
		return fmt.Sprintf("The provider did not create namespace %q: %s", remote, events.Cut(message, maxMessage))
	}
	return fmt.Sprintf("The provider did not create namespace %q. A namespace with this name may exist that does not belong to this cluster. "+
		"Ask the administrator of the provider to look at the events of NamespaceMap %q.", remote, nm.Name)
}

func keepTime(c offloadingv1beta1.RemoteNamespaceCondition, previous offloadingv1beta1.RemoteNamespaceConditions, now metav1.Time) offloadingv1beta1.RemoteNamespaceCondition {
	c.LastTransitionTime = now
	if i := slices.IndexFunc(previous, func(p offloadingv1beta1.RemoteNamespaceCondition) bool { return p.Type == c.Type }); i >= 0 &&
		previous[i].Status == c.Status && previous[i].Reason == c.Reason {
		c.LastTransitionTime = previous[i].LastTransitionTime
	}
	return c
}
