package namespaceoffloading

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/local"
)

// RemoteName returns the name of the namespace on the provider (wire 6.1).
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

// Selected returns the provider clusters that the selector picks: those of which any
// virtual node matches (T10). A selector without terms picks all of them.
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
			node = ExpectedNode(vn)
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

// ExpectedNode is the node that a VirtualNode will have, as far as selectors can see
// it, so that a selector gives the same answer before and after it exists (T9).
func ExpectedNode(vn *offloadingv1beta1.VirtualNode) *corev1.Node {
	expected := local.Node(local.NodeInput{VirtualNode: vn, ExtraLabels: extraLabels(vn)})
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: vn.Name, Labels: expected.Labels}}
}

// extraLabels are those that the virtual kubelet is told on its command line. What it
// would refuse to parse gives no label, here as there.
func extraLabels(vn *offloadingv1beta1.VirtualNode) map[string]string {
	extra := map[string]string{}
	if vn.Spec.Template == nil {
		return extra
	}
	for _, container := range vn.Spec.Template.Spec.Template.Spec.Containers {
		for _, arg := range container.Args {
			list, ok := strings.CutPrefix(arg, extraLabelsFlag)
			if !ok {
				continue
			}
			for pair := range strings.SplitSeq(list, ",") {
				if key, value, ok := strings.Cut(pair, "="); ok && key != "" {
					extra[key] = value
				}
			}
		}
	}
	return extra
}

// extraLabelsFlag is the virtual kubelet's flag for labels of its Node (wire 7.1).
const extraLabelsFlag = "--node-extra-labels="

// Status computes conditions and phase (wire 6.2) from what the NamespaceMaps say.
// Missing are selected providers without NamespaceMap, which will bear their ID as name
// (T74). Holds are mappings that stay although no virtual node matches. Times of unchanged conditions are kept from the previous status.
func Status(nso *offloadingv1beta1.NamespaceOffloading, remoteName string, byCluster map[string]*offloadingv1beta1.NamespaceMap, missing []string, holds map[string]*Hold, now metav1.Time) offloadingv1beta1.NamespaceOffloadingStatus {
	status := offloadingv1beta1.NamespaceOffloadingStatus{
		RemoteNamespaceName:        remoteName,
		ObservedGeneration:         nso.Generation,
		RemoteNamespacesConditions: map[string]offloadingv1beta1.RemoteNamespaceConditions{},
	}
	var required, ready, failed int
	for id, nm := range byCluster {
		_, desired := nm.Spec.DesiredMapping[nso.Namespace]
		current, known := nm.Status.CurrentMapping[nso.Namespace]
		if !nso.DeletionTimestamp.IsZero() && !desired && !known {
			continue
		}
		previous := nso.Status.RemoteNamespacesConditions[nm.Name]
		conditions := offloadingv1beta1.RemoteNamespaceConditions{requiredCondition(desired, holds[id], previous, now)}
		if desired || known {
			conditions = append(conditions, readyCondition(nm, nso.Namespace, previous, now))
		}
		status.RemoteNamespacesConditions[nm.Name] = conditions
		if !desired {
			continue
		}
		required++
		switch {
		case known && current.Phase == offloadingv1beta1.MappingAccepted:
			ready++
		case known && current.Phase == offloadingv1beta1.MappingCreationLoopBackOff:
			failed++
		}
	}
	for _, id := range missing {
		previous := nso.Status.RemoteNamespacesConditions[id]
		waiting := readyCondition(&offloadingv1beta1.NamespaceMap{}, nso.Namespace, previous, now)
		waiting.Message = "The cluster has no NamespaceMap yet: a condition of its VirtualNode says why"
		status.RemoteNamespacesConditions[id] = offloadingv1beta1.RemoteNamespaceConditions{requiredCondition(true, nil, previous, now), waiting}
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

func requiredCondition(desired bool, hold *Hold, previous offloadingv1beta1.RemoteNamespaceConditions, now metav1.Time) offloadingv1beta1.RemoteNamespaceCondition {
	c := offloadingv1beta1.RemoteNamespaceCondition{
		Type: offloadingv1beta1.NamespaceOffloadingRequired, Status: corev1.ConditionFalse, Reason: "ClusterNotSelected",
		Message: "No virtual node of this cluster matches the cluster selector",
	}
	if desired {
		c.Status, c.Reason, c.Message = corev1.ConditionTrue, "ClusterSelected", "The cluster selector matches this cluster"
	}
	if hold != nil {
		c.Reason, c.Message = hold.Reason, hold.Message
	}
	return keepTime(c, previous, now)
}

func readyCondition(nm *offloadingv1beta1.NamespaceMap, namespace string, previous offloadingv1beta1.RemoteNamespaceConditions, now metav1.Time) offloadingv1beta1.RemoteNamespaceCondition {
	c := offloadingv1beta1.RemoteNamespaceCondition{
		Type: offloadingv1beta1.NamespaceReady, Status: corev1.ConditionFalse, Reason: "Creating",
		Message: fmt.Sprintf("The provider has not answered yet; if something keeps the replicator from asking it, events of NamespaceMap %s/%s say what", nm.Namespace, nm.Name),
	}
	if current, known := nm.Status.CurrentMapping[namespace]; known {
		c.Reason = string(current.Phase)
		switch current.Phase {
		case offloadingv1beta1.MappingAccepted:
			c.Status, c.Reason, c.Message = corev1.ConditionTrue, "NamespaceCreated", "The remote namespace exists"
		case offloadingv1beta1.MappingCreationLoopBackOff:
			c.Message = failure(nm, namespace)
		case offloadingv1beta1.MappingTerminating:
			c.Message = "The remote namespace is being deleted"
		}
	}
	return keepTime(c, previous, now)
}

// failure says why there is no remote namespace, as far as this cluster knows; the rest is
// known to the provider alone, and the owner of the namespace must know whom to ask.
func failure(nm *offloadingv1beta1.NamespaceMap, namespace string) string {
	remote := nm.Status.CurrentMapping[namespace].RemoteNamespace
	for _, other := range slices.Sorted(maps.Keys(nm.Spec.DesiredMapping)) {
		// Two never share one: who has it keeps it, else the first by name gets it (T75).
		has := nm.Status.CurrentMapping[other] == offloadingv1beta1.RemoteNamespaceStatus{RemoteNamespace: remote, Phase: offloadingv1beta1.MappingAccepted}
		if other != namespace && nm.Spec.DesiredMapping[other] == remote && (has || other < namespace) {
			return fmt.Sprintf("Namespace %q of this cluster has the remote name %q: delete this NamespaceOffloading, and create it again with another name",
				other, remote)
		}
	}
	if message := nm.Status.CurrentMapping[namespace].Message; message != "" {
		return fmt.Sprintf("The provider does not make namespace %q: %s", remote, message)
	}
	return fmt.Sprintf("The provider cannot make namespace %q; often it has one of that name that was not made for this cluster. "+
		"Ask its administrator: an event of NamespaceMap %q in the provider names the cause", remote, nm.Name)
}

func keepTime(c offloadingv1beta1.RemoteNamespaceCondition, previous offloadingv1beta1.RemoteNamespaceConditions, now metav1.Time) offloadingv1beta1.RemoteNamespaceCondition {
	c.LastTransitionTime = now
	if i := slices.IndexFunc(previous, func(p offloadingv1beta1.RemoteNamespaceCondition) bool { return p.Type == c.Type }); i >= 0 &&
		previous[i].Status == c.Status && previous[i].Reason == c.Reason {
		c.LastTransitionTime = previous[i].LastTransitionTime
	}
	return c
}
