package local

import (
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/quantity"
)

// ProviderIDAnnotation on the Node, of the VirtualNode or of the VkOptionsTemplate, is the spec.providerID of the
// Node. The texts {cluster} and {node} stand for the provider's cluster ID and the name of the Node.
const ProviderIDAnnotation = "longshore.dev/provider-id"

// Network is the state of the network between consumer and provider.
type Network string

// The states of the network.
const (
	// NetworkUnchecked omits the network condition.
	NetworkUnchecked Network = ""
	NetworkUp        Network = "Up"
	NetworkDown      Network = "Down"
)

// Reasons of a virtual node's conditions.
const (
	readyReason       = "KubeletReady"
	notReadyReason    = "KubeletNotReady"
	networkUpReason   = "LiqoNetworkingUp"
	networkDownReason = "LiqoNetworkingDown"
	// networkUncheckedReason is that of a condition that takes the place of another client's.
	networkUncheckedReason = "NetworkUnchecked"

	memoryPressureReason, sufficientMemoryReason = "RemoteClusterHasMemoryPressure", "RemoteClusterHasSufficientMemory"
	diskPressureReason, noDiskPressureReason     = "RemoteClusterHasDiskPressure", "RemoteClusterHasNoDiskPressure"
	pidPressureReason, noPIDPressureReason       = "RemoteClusterHasPIDPressure", "RemoteClusterHasNoPIDPressure"

	defaultArchitecture = "amd64"
)

// NotReady is the reason and the message of a Node that is not ready.
type NotReady struct{ Reason, Message string }

// NodeInput is the input of [Node].
type NodeInput struct {
	VirtualNode *offloadingv1beta1.VirtualNode
	// ExtraLabels and ExtraAnnotations are flags. Those of the VirtualNode override them.
	ExtraLabels, ExtraAnnotations map[string]string
	// NodeIP and KubeletPort are the address of the virtual kubelet.
	NodeIP      string
	KubeletPort int32
	// KubeletVersion is the version of the consumer's API server.
	KubeletVersion string
	Network        Network
	// NotReady is why the virtual kubelet cannot run pods yet; nil when it can.
	NotReady *NotReady
	// Previous are the last published conditions. A condition keeps its transition time while
	// its status does not change.
	Previous []corev1.NodeCondition
	// Current are the conditions of the API server's Node, which other clients write, too.
	Current []corev1.NodeCondition
	Now     time.Time
}

// Node builds the Node of a virtual node. Its labels, annotations, taints, capacity
// and images are complete: others that the virtual kubelet set before must be removed,
// including capacity keys.
func Node(in NodeInput) *corev1.Node {
	spec := &in.VirtualNode.Spec
	labels, annotations := nodeLabels(in), union(in.ExtraAnnotations, spec.Annotations)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        in.VirtualNode.Name,
			Labels:      labels,
			Annotations: annotations,
		},
		Spec: corev1.NodeSpec{
			Taints:     nodeTaints(spec.Taints),
			ProviderID: strings.NewReplacer("{cluster}", string(spec.ClusterID), "{node}", in.VirtualNode.Name).Replace(annotations[ProviderIDAnnotation]),
		},
		Status: corev1.NodeStatus{
			Capacity:        resources(spec.ResourceQuota.Hard),
			Allocatable:     resources(spec.ResourceQuota.Hard),
			Conditions:      nodeConditions(in),
			Addresses:       addresses(in.NodeIP),
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: in.KubeletPort}},
			NodeInfo: corev1.NodeSystemInfo{
				KubeletVersion:  in.KubeletVersion,
				OperatingSystem: "Linux",
				// The label overrides the default.
				Architecture: labels[corev1.LabelArchStable],
			},
			Images: copyImages(spec.Images),
		},
	}
}

// nodeLabels sets defaults first and labels that cannot be overridden last.
func nodeLabels(in NodeInput) map[string]string {
	spec := &in.VirtualNode.Spec
	labels := map[string]string{
		corev1.LabelOSStable:                                      string(corev1.Linux),
		corev1.LabelArchStable:                                    defaultArchitecture,
		"kubernetes.io/role":                                      "agent",
		corev1.LabelNodeExcludeBalancers:                          "true",
		"alpha.service-controller.kubernetes.io/exclude-balancer": "true",
		offloadingv1beta1.StorageAvailableLabel:                   "false",
	}
	if len(spec.StorageClasses) > 0 {
		labels[offloadingv1beta1.StorageAvailableLabel] = "true"
	}
	maps.Copy(labels, in.ExtraLabels)
	maps.Copy(labels, spec.Labels)
	maps.Copy(labels, map[string]string{
		corev1.LabelHostname:                 in.VirtualNode.Name,
		offloadingv1beta1.NodeTypeLabel:      offloadingv1beta1.NodeTypeVirtual,
		offloadingv1beta1.KubeletTypeLabel:   offloadingv1beta1.KubeletTypeVirtual,
		liqocorev1beta1.RemoteClusterIDLabel: string(spec.ClusterID),
	})
	return labels
}

// nodeTaints puts the taint of virtual nodes first. The API server rejects two taints with the
// same key and effect, so later ones are dropped.
func nodeTaints(extra []corev1.Taint) []corev1.Taint {
	taints := []corev1.Taint{{
		Key: offloadingv1beta1.VirtualNodeTaintKey, Value: offloadingv1beta1.VirtualNodeTaintValue, Effect: corev1.TaintEffectNoExecute,
	}}
	for i := range extra {
		taint := extra[i].DeepCopy()
		if !HasTaint(taints, taint) {
			taints = append(taints, *taint)
		}
	}
	return taints
}

// HasTaint reports whether the list has a taint with the same key and effect.
func HasTaint(taints []corev1.Taint, taint *corev1.Taint) bool {
	for i := range taints {
		if taints[i].MatchTaint(taint) {
			return true
		}
	}
	return false
}

// nodeConditions returns the conditions of a Node. A virtual node without CPU or memory has
// pressure. If the network is not checked, the Node has no network condition, unless another
// client has set one, such as the route controller of a cloud: it would keep pods away for ever.
func nodeConditions(in NodeInput) []corev1.NodeCondition {
	hard := resources(in.VirtualNode.Spec.ResourceQuota.Hard)
	capable := hard.Cpu().Sign() > 0 && hard.Memory().Sign() > 0
	ready := capable && in.Network != NetworkDown
	conditions := []corev1.NodeCondition{
		condition(corev1.NodeReady, ready, readyReason, notReadyReason, readyMessage(in.VirtualNode, capable, in.Network)),
		condition(corev1.NodeMemoryPressure, !capable, memoryPressureReason, sufficientMemoryReason, pressureMessage(capable, "memory")),
		condition(corev1.NodeDiskPressure, !capable, diskPressureReason, noDiskPressureReason, pressureMessage(capable, "disk")),
		condition(corev1.NodePIDPressure, !capable, pidPressureReason, noPIDPressureReason, pressureMessage(capable, "PID")),
	}
	switch current := findCondition(in.Current, corev1.NodeNetworkUnavailable); {
	case in.Network != NetworkUnchecked:
		conditions = append(conditions,
			condition(corev1.NodeNetworkUnavailable, in.Network == NetworkDown, networkDownReason, networkUpReason, networkMessage(in.VirtualNode, in.Network)))
	case current != nil && (current.Status != corev1.ConditionFalse || current.Reason == networkUncheckedReason):
		conditions = append(conditions,
			condition(corev1.NodeNetworkUnavailable, false, "", networkUncheckedReason, "The virtual kubelet does not check the network"))
	}
	if in.NotReady != nil && ready {
		conditions[0].Status, conditions[0].Reason, conditions[0].Message = corev1.ConditionFalse, in.NotReady.Reason, in.NotReady.Message
	}
	for i := range conditions {
		conditions[i].LastHeartbeatTime = transition(in.Now)
		conditions[i].LastTransitionTime = transitionTime(&conditions[i], in.Previous, in.Now)
	}
	return conditions
}

func readyMessage(vn *offloadingv1beta1.VirtualNode, capable bool, network Network) string {
	switch {
	case !capable:
		return "VirtualNode " + vn.Namespace + "/" + vn.Name + " offers no cpu or no memory in spec.resourceQuota.hard"
	case network == NetworkDown:
		return networkMessage(vn, network)
	default:
		return "Pods are offloaded to cluster " + string(vn.Spec.ClusterID)
	}
}

// pressureMessage is never empty, as those of other conditions: a patch does not remove what another client has written.
func pressureMessage(capable bool, resource string) string {
	if capable {
		return "The virtual node has no " + resource + " pressure"
	}
	return "The virtual node has no cpu or no memory to offer"
}

func networkMessage(vn *offloadingv1beta1.VirtualNode, network Network) string {
	if network == NetworkDown {
		return "The network to cluster " + string(vn.Spec.ClusterID) + " is not established"
	}
	return "The network to cluster " + string(vn.Spec.ClusterID) + " is established"
}

func condition(conditionType corev1.NodeConditionType, status bool, trueReason, falseReason, message string) corev1.NodeCondition {
	if status {
		return corev1.NodeCondition{Type: conditionType, Status: corev1.ConditionTrue, Reason: trueReason, Message: message}
	}
	return corev1.NodeCondition{Type: conditionType, Status: corev1.ConditionFalse, Reason: falseReason, Message: message}
}

// ForeignConditions returns the conditions of the API server's Node that keep pods away, and which neither the
// virtual kubelet nor the node lifecycle controller has set.
func ForeignConditions(current, desired []corev1.NodeCondition) []corev1.NodeCondition {
	own := map[corev1.NodeConditionType]string{
		corev1.NodeMemoryPressure: memoryPressureReason, corev1.NodeDiskPressure: diskPressureReason,
		corev1.NodePIDPressure: pidPressureReason, corev1.NodeNetworkUnavailable: networkDownReason,
	}
	var foreign []corev1.NodeCondition
	for i := range current {
		reason, isStandard := own[current[i].Type]
		want := findCondition(desired, current[i].Type)
		if isStandard && current[i].Status == corev1.ConditionTrue && current[i].Reason != reason && want != nil && want.Status != corev1.ConditionTrue {
			foreign = append(foreign, current[i])
		}
	}
	return foreign
}

func findCondition(conditions []corev1.NodeCondition, conditionType corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range conditions {
		if conditions[i].Type == conditionType {
			return &conditions[i]
		}
	}
	return nil
}

func transitionTime(condition *corev1.NodeCondition, previous []corev1.NodeCondition, now time.Time) metav1.Time {
	before := findCondition(previous, condition.Type)
	if before != nil && before.Status == condition.Status && !before.LastTransitionTime.IsZero() {
		return before.LastTransitionTime
	}
	return transition(now)
}

func addresses(ip string) []corev1.NodeAddress {
	if ip == "" {
		return nil
	}
	return []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}}
}

// resources returns the amounts that a Node can have: the scheduler would compute with others without
// end, or fail.
func resources(hard corev1.ResourceList) corev1.ResourceList {
	valid := hard.DeepCopy()
	maps.DeleteFunc(valid, func(name corev1.ResourceName, amount resource.Quantity) bool {
		return quantity.CheckCapacity(name, amount) != nil
	})
	return valid
}

func copyImages(images []corev1.ContainerImage) []corev1.ContainerImage {
	var copies []corev1.ContainerImage
	for i := range images {
		copies = append(copies, *images[i].DeepCopy())
	}
	return copies
}

func union(base, over map[string]string) map[string]string {
	both := make(map[string]string, len(base)+len(over))
	maps.Copy(both, base)
	maps.Copy(both, over)
	return both
}
