package planner

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/pod"
	"github.com/longshore-dev/longshore/host/forge/local"
)

// The roles that can correct a problem.
const (
	Owner            = "the owner of the pod"
	Operator         = "the operator of the consumer"
	ProviderOperator = "the operator of the provider"
)

// The stages of a pod that exists.
const (
	// VirtualNode: the virtual node and its virtual kubelet.
	VirtualNode Stage = "VirtualNode"
	// Creating: the provider makes a pod of the ShadowPod.
	Creating Stage = "Creating"
	// ProviderScheduling: kube-scheduler of the provider.
	ProviderScheduling Stage = "ProviderScheduling"
)

// Diagnosis is the first thing that is wrong with a pod.
type Diagnosis struct {
	Reason

	// Who can correct it.
	Who string `json:"who"`
}

// Observed is what is known about a pod that exists. Objects that could not be read are nil.
type Observed struct {
	// Pod in the consumer.
	Pod *corev1.Pod
	// Offloading is the NamespaceOffloading of its namespace.
	Offloading *offloadingv1beta1.NamespaceOffloading
	// Node that the pod is bound to.
	Node *corev1.Node
	// Mapping is the remote namespace; nil if the NamespaceMap has none, or is not known.
	Mapping *offloadingv1beta1.RemoteNamespaceStatus
	// KnowsMapping reports that the NamespaceMap of the provider was read.
	KnowsMapping bool
	// Provider reports that the provider was read, so that objects that are nil do not exist.
	Provider bool
	// ShadowPod and RemotePod in the provider.
	ShadowPod *offloadingv1beta1.ShadowPod
	RemotePod *corev1.Pod
}

// Diagnose returns the first thing that is wrong with a pod, from its scheduling to the
// provider's kubelet; nil if it runs or has ended.
func Diagnose(o Observed) *Diagnosis {
	if isRunning(o.Pod) || o.Pod.Status.Phase == corev1.PodSucceeded {
		return nil
	}
	for _, check := range []func(Observed) *Diagnosis{diagnoseDeletion, diagnoseScheduling, diagnoseNode, diagnoseMapping, diagnoseForging, diagnoseCreation} {
		if found := check(o); found != nil {
			return found
		}
	}
	if o.RemotePod != nil {
		if found := diagnoseRemotePod(o.RemotePod); found != nil {
			return found
		}
	}
	if found := diagnoseContainers(o.Pod); found != nil {
		return found
	}
	return newDiagnosis(Running, "NotReady", Owner, "The pod is not ready, and neither cluster reports a cause. See its events, and the log of its virtual kubelet.")
}

func newDiagnosis(stage Stage, reason, who, format string, arguments ...any) *Diagnosis {
	return &Diagnosis{Reason: Reason{Stage: stage, Reason: reason, Message: fmt.Sprintf(format, arguments...)}, Who: who}
}

// condition returns a condition of a pod; nil if it has none of this type.
func condition(p *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == kind {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

func isRunning(p *corev1.Pod) bool {
	ready := condition(p, corev1.PodReady)
	return p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning && ready != nil && ready.Status == corev1.ConditionTrue
}

func diagnoseDeletion(o Observed) *Diagnosis {
	if o.Pod.DeletionTimestamp == nil {
		return nil
	}
	return newDiagnosis(Running, "Deleting", Owner, "The pod is being deleted since %s.", o.Pod.DeletionTimestamp.UTC().Format("2006-01-02 15:04:05"))
}

func diagnoseScheduling(o Observed) *Diagnosis {
	if o.Pod.Spec.NodeName != "" {
		return nil
	}
	scheduled := condition(o.Pod, corev1.PodScheduled)
	switch {
	case len(o.Pod.Spec.SchedulingGates) > 0:
		return newDiagnosis(Scheduling, corev1.PodReasonSchedulingGated, Owner, "The pod has the scheduling gate %q. The controller that added it must remove it.", o.Pod.Spec.SchedulingGates[0].Name)
	case o.Offloading == nil:
		return newDiagnosis(Scheduling, "NamespaceNotOffloaded", Operator, "No node takes the pod, and namespace %q has no NamespaceOffloading: virtual nodes do not take it. %s", o.Pod.Namespace, message(scheduled))
	case scheduled == nil || scheduled.Message == "":
		return newDiagnosis(Scheduling, "NotScheduled", Operator, "The scheduler has not decided about the pod yet.")
	default:
		return newDiagnosis(Scheduling, scheduled.Reason, Owner, "%s", scheduled.Message)
	}
}

func message(c *corev1.PodCondition) string {
	if c == nil {
		return ""
	}
	return c.Message
}

func diagnoseNode(o Observed) *Diagnosis {
	if o.Node == nil || o.Node.Labels[offloadingv1beta1.NodeTypeLabel] != offloadingv1beta1.NodeTypeVirtual {
		return nil
	}
	for _, c := range o.Node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return newDiagnosis(VirtualNode, cmp.Or(c.Reason, "NodeNotReady"), Operator, "Virtual node %q is not ready: %s", o.Node.Name, c.Message)
		}
	}
	return nil
}

func diagnoseMapping(o Observed) *Diagnosis {
	// The status of a DaemonSet's pod says what to change in the DaemonSet.
	if o.Node == nil || !o.KnowsMapping || o.Pod.Status.Reason == local.DaemonSetNotOffloadedReason {
		return nil
	}
	switch {
	case o.Mapping == nil:
		return newDiagnosis(Mapping, offloadingv1beta1.OffloadingBackOffReason, Operator, "Namespace %q is not offloaded to the provider of node %q. See the status of its NamespaceOffloading.", o.Pod.Namespace, o.Node.Name)
	case o.Mapping.Phase != offloadingv1beta1.MappingAccepted:
		return newDiagnosis(Mapping, string(o.Mapping.Phase), ProviderOperator, "The provider of node %q did not create namespace %q: %s", o.Node.Name, o.Mapping.RemoteNamespace, o.Mapping.Message)
	default:
		return nil
	}
}

// diagnoseForging reports what the virtual kubelet wrote into the status of the pod.
func diagnoseForging(o Observed) *Diagnosis {
	who := ""
	stage := Forging
	switch o.Pod.Status.Reason {
	case pod.ReasonDenied:
		who = Owner
	case pod.ReasonPolicyFailed:
		who = "the author of the policy"
	case pod.ReasonRefused:
		who, stage = ProviderOperator, Creating
	case offloadingv1beta1.OffloadingBackOffReason, offloadingv1beta1.OffloadingAbortedReason, local.DaemonSetNotOffloadedReason:
		who, stage = Operator, Mapping
	default:
		return nil
	}
	return newDiagnosis(stage, o.Pod.Status.Reason, who, "%s", o.Pod.Status.Message)
}

// diagnoseCreation reports a remote pod that does not exist.
func diagnoseCreation(o Observed) *Diagnosis {
	switch {
	case !o.Provider:
		return nil
	case o.ShadowPod == nil:
		return newDiagnosis(Forging, "NotSent", Operator, "The virtual kubelet has not sent the pod to the provider. See the events of the pod, and the log of the virtual kubelet.")
	case o.ShadowPod.Status.Reason != "":
		return newDiagnosis(Creating, o.ShadowPod.Status.Reason, ProviderOperator, "%s", o.ShadowPod.Status.Message)
	case o.RemotePod == nil:
		return newDiagnosis(Creating, "NotCreated", ProviderOperator, "The provider has not created the pod of ShadowPod %s/%s. See the log of its manager.", o.ShadowPod.Namespace, o.ShadowPod.Name)
	default:
		return nil
	}
}

func diagnoseRemotePod(remote *corev1.Pod) *Diagnosis {
	if scheduled := condition(remote, corev1.PodScheduled); scheduled != nil && scheduled.Status == corev1.ConditionFalse {
		return newDiagnosis(ProviderScheduling, scheduled.Reason, ProviderOperator, "%s", scheduled.Message)
	}
	return diagnoseContainers(remote)
}

// diagnoseContainers reports the first container that does not run.
func diagnoseContainers(p *corev1.Pod) *Diagnosis {
	for _, statuses := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range statuses {
			c := &statuses[i]
			waiting, terminated := c.State.Waiting, c.State.Terminated
			switch {
			case waiting != nil && waiting.Reason != "" && waiting.Reason != "PodInitializing" && waiting.Reason != "ContainerCreating":
				return newDiagnosis(Running, waiting.Reason, Owner, "Container %q waits: %s", c.Name, cmp.Or(waiting.Message, waiting.Reason))
			case terminated != nil && terminated.ExitCode != 0:
				return newDiagnosis(Running, cmp.Or(terminated.Reason, "Error"), Owner, "Container %q ended with exit code %d. %s", c.Name, terminated.ExitCode, terminated.Message)
			}
		}
	}
	if p.Status.Phase == corev1.PodFailed {
		return newDiagnosis(Running, cmp.Or(p.Status.Reason, "Failed"), Owner, "The pod has failed. %s", p.Status.Message)
	}
	return nil
}
