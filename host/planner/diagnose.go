package planner

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	podresource "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/namespaceoffloading"
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
	// Namespace with its managed fields, which say when it was offloaded; nil if it was not read.
	Namespace *corev1.Namespace
	// Node that the pod is bound to.
	Node *corev1.Node
	// Peer is the ForeignCluster of the provider of a virtual node.
	Peer *liqocorev1beta1.ForeignCluster
	// Mapping is the remote namespace; nil if the NamespaceMap has none, or is not known.
	Mapping *offloadingv1beta1.RemoteNamespaceStatus
	// KnowsMapping reports that the NamespaceMap of the provider was read.
	KnowsMapping bool
	// Facts have the virtual nodes, their Nodes and what is requested there, and the objects that the
	// pod refers to. VirtualNodes and Inventory are nil if they are not known. Other facts are not
	// used.
	Facts Facts
	// Events about the pod and the objects that it refers to, of both clusters.
	Events []corev1.Event
	// Provider reports that the provider was read, so that objects that are nil do not exist.
	Provider bool
	// ShadowPod and RemotePod in the provider.
	ShadowPod *offloadingv1beta1.ShadowPod
	RemotePod *corev1.Pod
	// Absent are objects that the remote pod refers to and that do not exist in the provider.
	Absent []Reference
}

// References lists the objects of the consumer that the pod refers to.
func (o *Observed) References() []Reference {
	return localReferences(o.Pod, o.ShadowPod, o.homeClusterID())
}

// homeClusterID returns the consumer's ID, which is known if the ShadowPod is.
func (o *Observed) homeClusterID() string {
	if o.ShadowPod == nil {
		return ""
	}
	return o.ShadowPod.Labels[offloadingv1beta1.OriginLabel]
}

// isOffloaded reports whether the pod is known to be on a virtual node.
func (o *Observed) isOffloaded() bool {
	return o.ShadowPod != nil || IsVirtual(o.Node)
}

// IsVirtual reports whether a Node, which may be nil, is known to be that of a virtual node.
func IsVirtual(node *corev1.Node) bool {
	return node != nil && node.Labels[offloadingv1beta1.NodeTypeLabel] == offloadingv1beta1.NodeTypeVirtual
}

// remotePod returns the remote pod; the local pod, which has its status, if that is not known.
func (o *Observed) remotePod() *corev1.Pod {
	if o.RemotePod != nil {
		return o.RemotePod
	}
	return o.Pod
}

// kubeletOperator returns who operates the kubelet that runs the pod.
func (o *Observed) kubeletOperator() string {
	if o.isOffloaded() {
		return ProviderOperator
	}
	return Operator
}

// Diagnose returns the first thing that is wrong with a pod, from its scheduling to the
// provider's kubelet; nil if it runs where its namespace wants it, or has ended.
func Diagnose(o Observed) *Diagnosis {
	if found := diagnosePlacement(o); found != nil {
		return found
	}
	if isRunning(o.Pod) || o.Pod.Status.Phase == corev1.PodSucceeded && o.Pod.DeletionTimestamp == nil {
		return nil
	}
	for _, check := range []func(Observed) *Diagnosis{
		diagnoseDeletion, diagnoseScheduling, diagnoseNode, diagnoseMapping, diagnoseForging, diagnoseCreation, diagnoseReplacement,
		diagnoseProviderScheduling, diagnoseNeeds, diagnoseContainers, diagnoseReadiness, diagnoseWarning, diagnoseKubelet,
	} {
		if found := check(o); found != nil {
			found.Message = strings.TrimSpace(found.Message)
			return found
		}
	}
	if o.isOffloaded() && !o.Provider {
		return newDiagnosis(Running, ReasonNotReady, Operator, "The pod is not ready, and neither its status nor its events name a cause. Explain it with access to the provider, or see the log of its virtual kubelet.")
	}
	return newDiagnosis(Running, ReasonNotReady, Owner, "The pod is not ready, and neither cluster reports a cause. See its events, and the log of its virtual kubelet.")
}

func newDiagnosis(stage Stage, reason, who, format string, arguments ...any) *Diagnosis {
	return &Diagnosis{Reason: *newReason(stage, reason, format, arguments...), Who: who}
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
	since := deletedSince(o.Pod)
	if node := diagnoseNode(o); node != nil {
		node.Message = fmt.Sprintf("The pod is to be deleted since %s, and it stays until its node is ready or gone. %s", since, node.Message)
		return node
	}
	if len(o.Pod.Finalizers) > 0 {
		return newDiagnosis(Running, ReasonDeleting, Owner, "The pod is to be deleted since %s. It has the finalizers %s, which their controllers must remove.", since, strings.Join(o.Pod.Finalizers, ", "))
	}
	if held := pod.HeldByFinalizers(o.ShadowPod, o.RemotePod); held != "" {
		return newDiagnosis(Running, pod.ReasonRemoteFinalizers, ProviderOperator, "The pod is to be deleted since %s. The provider keeps %s, which the controllers that set them must remove.", since, held)
	}
	if event := newestWarning(o.Events, o.isHeld); event != nil {
		return newDiagnosis(Running, event.Reason, ProviderOperator, "%s", event.Message)
	}
	return newDiagnosis(Running, ReasonDeleting, Owner, "The pod is being deleted since %s.", since)
}

// deletedSince returns when a pod was deleted, as text. The time in its metadata is that at which its grace
// period ends.
func deletedSince(p *corev1.Pod) string {
	grace := min(max(ptr.Deref(p.DeletionGracePeriodSeconds, 0), 0), math.MaxInt32)
	return p.DeletionTimestamp.Add(-time.Duration(grace) * time.Second).UTC().Format("2006-01-02 15:04:05")
}

// isHeld reports whether an event says that the pod waits for finalizers in the provider.
func (o *Observed) isHeld(event *corev1.Event) bool {
	return event.Reason == pod.ReasonRemoteFinalizers && event.InvolvedObject.UID == o.Pod.UID
}

// diagnosePlacement reports a pod on a node that the strategy of its namespace does not permit.
func diagnosePlacement(o Observed) *Diagnosis {
	if o.Offloading == nil || o.Node == nil {
		return nil
	}
	strategy := o.Offloading.Spec.PodOffloadingStrategy
	repair := namespaceoffloading.Repair(o.Pod.Namespace, []corev1.Pod{*o.Pod})
	switch reason := namespaceoffloading.Contradiction(strategy, o.Pod, IsVirtual(o.Node), namespaceoffloading.OffloadedAt(o.Namespace, o.Offloading)); reason {
	case "":
		return nil
	case offloadingv1beta1.CreatedBeforeOffloadingReason:
		return newDiagnosis(Scheduling, reason, Owner, "The pod was created before its namespace was offloaded, so it is on node %q although the strategy is %s. Create it again: %s.", o.Node.Name, strategy, repair)
	default:
		return newDiagnosis(Scheduling, reason, Owner, "The pod was created when the strategy of its namespace was another, so it is on node %q although the strategy is %s. Create it again: %s.", o.Node.Name, strategy, repair)
	}
}

func diagnoseScheduling(o Observed) *Diagnosis {
	if o.Pod.Spec.NodeName != "" {
		return nil
	}
	scheduled := condition(o.Pod, corev1.PodScheduled)
	says := ""
	if scheduled != nil && scheduled.Message != "" {
		message, _, _ := strings.Cut(scheduled.Message, " preemption: ")
		says = " The scheduler says: " + message
	}
	switch {
	case len(o.Pod.Spec.SchedulingGates) > 0:
		return newDiagnosis(Scheduling, corev1.PodReasonSchedulingGated, Owner, "%s", describeGates(o.Pod))
	case o.Offloading == nil:
		return newDiagnosis(Scheduling, ReasonNamespaceNotOffloaded, Operator, "No node takes the pod, and namespace %q has no NamespaceOffloading: virtual nodes do not take it.%s", o.Pod.Namespace, says)
	case says == "":
		return newDiagnosis(Scheduling, ReasonNotScheduled, Operator, "The scheduler has not decided about the pod yet.")
	case o.Offloading.Spec.PodOffloadingStrategy == offloadingv1beta1.LocalPodOffloadingStrategyType:
		return newDiagnosis(Scheduling, ReasonStrategyLocal, Operator, "No node takes the pod, and the NamespaceOffloading of namespace %q has the strategy Local: virtual nodes do not take it.%s", o.Pod.Namespace, says)
	}
	if found := diagnoseMisfit(o, scheduled.Reason, says); found != nil {
		return found
	}
	if o.Facts.Inventory != nil {
		for _, f := range o.needs().Follows {
			if f.Kind == kindClaim && f.State == NotReflected {
				return newDiagnosis(Scheduling, ReasonObjectNotReflected, Owner, "Claim %q keeps the pod off virtual nodes: %s.%s", f.Name, f.Why, says)
			}
		}
	}
	return newDiagnosis(Scheduling, scheduled.Reason, Owner, "%s", scheduled.Message)
}

// diagnoseMisfit returns why the virtual nodes do not take a pod; nil if one does, or they are not
// known. The one that is closest to the pod decides who can correct it.
func diagnoseMisfit(o Observed, reason, says string) *Diagnosis {
	if o.Facts.VirtualNodes == nil {
		return nil
	}
	facts := o.Facts
	facts.Offloadings = map[string]*offloadingv1beta1.NamespaceOffloading{o.Pod.Namespace: o.Offloading}
	p, err := New(facts, nil)
	if err != nil {
		return newDiagnosis(Scheduling, ReasonInvalidClusterSelector, Operator, "%s", err.Error())
	}
	requests := podresource.PodRequests(o.Pod, podresource.PodResourcesOptions{})
	var misfits []*misfit
	for _, node := range p.nodes {
		found := p.findMisfit(o.Pod, requests, nil, node)
		if found == nil {
			return nil
		}
		misfits = append(misfits, found)
	}
	text := describeMisfits(misfits)
	switch {
	case len(misfits) == 0:
		return newDiagnosis(Scheduling, ReasonNoVirtualNode, Operator, "No node takes the pod, and %s.%s", text, says)
	case misfits[0].rank == rankResources:
		return newDiagnosis(Scheduling, reason, misfits[0].who, "No virtual node takes the pod: %s. A larger ResourceSlice, or spec.resourceQuota of the VirtualNode, gives it room.%s", text, says)
	case misfits[0].rank != rankNotAdmitted:
		return newDiagnosis(Scheduling, reason, misfits[0].who, "No virtual node takes the pod: %s.%s", text, says)
	case namespaceoffloading.PrecedesOffloading(o.Pod, namespaceoffloading.OffloadedAt(o.Namespace, o.Offloading)):
		return newDiagnosis(Scheduling, offloadingv1beta1.CreatedBeforeOffloadingReason, Owner,
			"The pod was created before its namespace was offloaded, so it does not tolerate virtual nodes. Create it again: %s.%s", namespaceoffloading.Repair(o.Pod.Namespace, []corev1.Pod{*o.Pod}), says)
	default:
		return newDiagnosis(Scheduling, ReasonNotPlaced, Operator,
			"The pod does not tolerate virtual nodes, although its namespace is offloaded: the pod webhook did not add the toleration. See the webhook and its policies, then create the pod again.%s", says)
	}
}

func diagnoseNode(o Observed) *Diagnosis {
	if !IsVirtual(o.Node) {
		return nil
	}
	c := notReady(o.Node)
	if c == nil {
		return nil
	}
	if down := o.outage(); down != nil {
		return newDiagnosis(VirtualNode, ReasonProviderUnreachable, Operator, "The API server of cluster %q does not answer, so virtual node %q is not ready. %s", o.Peer.Spec.ClusterID, o.Node.Name, down.Message)
	}
	hint := ""
	if c.Status == corev1.ConditionUnknown {
		hint = " Its virtual kubelet does not run, or does not reach one of the clusters."
	}
	return newDiagnosis(VirtualNode, cmp.Or(c.Reason, ReasonNodeNotReady), Operator, "Virtual node %q is not ready: %s%s", o.Node.Name, c.Message, hint)
}

// outage returns what the manager reports about a provider whose API server does not answer; nil if it
// answers, or that is not known.
func (o *Observed) outage() *liqocorev1beta1.Condition {
	if o.Peer == nil {
		return nil
	}
	for i := range o.Peer.Status.Conditions {
		if c := &o.Peer.Status.Conditions[i]; c.Type == liqocorev1beta1.APIServerStatusCondition && c.Status == liqocorev1beta1.ConditionStatusError {
			return c
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
	case o.Mapping.IsEnding():
		return newDiagnosis(Mapping, offloadingv1beta1.RemoteNamespaceTerminatingReason, ProviderOperator, "The provider of node %q deletes namespace %q, and all pods in it: %s", o.Node.Name, o.Mapping.RemoteNamespace, o.Mapping.Message)
	case o.Mapping.Phase == offloadingv1beta1.MappingTerminating:
		return newDiagnosis(Mapping, string(o.Mapping.Phase), ProviderOperator, "The provider of node %q deletes namespace %q: %s", o.Node.Name, o.Mapping.RemoteNamespace, cmp.Or(o.Mapping.Message, "it does not say what keeps it"))
	case o.Mapping.Phase != offloadingv1beta1.MappingAccepted:
		return newDiagnosis(Mapping, string(o.Mapping.Phase), ProviderOperator, "The provider of node %q did not create namespace %q: %s", o.Node.Name, o.Mapping.RemoteNamespace, cmp.Or(o.Mapping.Message, "it gives no reason"))
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
	case pod.ReasonRefused, pod.ReasonEndedByProvider:
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
	node := o.virtualNode()
	switch {
	case node.reflector(resourcePod).isDisabled:
		return newDiagnosis(Forging, ReasonPodsNotReflected, Operator, "The virtual kubelet runs no pods: %s.", node.describeDisabled(resourcePod))
	case !o.Provider:
		return nil
	case o.ShadowPod == nil:
		if event := newestWarning(o.Events, o.isAboutPod); event != nil {
			return diagnoseEvent(o, Forging, event)
		}
		return newDiagnosis(Forging, ReasonNotSent, Operator, "The virtual kubelet has not sent the pod to the provider. See the events of the pod, and the log of the virtual kubelet.")
	case o.ShadowPod.Status.Reason != "":
		return newDiagnosis(Creating, o.ShadowPod.Status.Reason, ProviderOperator, "%s", o.ShadowPod.Status.Message)
	case o.RemotePod == nil:
		return newDiagnosis(Creating, ReasonNotCreated, ProviderOperator, "The provider has not created the pod of ShadowPod %s/%s. It waits up to 5 minutes if the pod is deleted there again and again; otherwise see the log of its manager.", o.ShadowPod.Namespace, o.ShadowPod.Name)
	default:
		return nil
	}
}

// diagnoseProviderScheduling reports a remote pod that no node of the provider takes. The local pod,
// which has a node, has the same condition.
func diagnoseProviderScheduling(o Observed) *Diagnosis {
	if scheduled := condition(o.remotePod(), corev1.PodScheduled); scheduled != nil && scheduled.Status == corev1.ConditionFalse {
		if claim := o.lostClaim(); claim != "" {
			says := ""
			if event := newestWarning(o.Events, func(e *corev1.Event) bool {
				return e.InvolvedObject.Kind == kindClaim && e.InvolvedObject.Name == claim
			}); event != nil {
				says = " The claim says: " + describeEvent(event)
			}
			return newDiagnosis(ProviderScheduling, ReasonVolumeLost, Owner, "The claim %[1]q was deleted in the provider, and its data is lost. "+
				"To go on with an empty volume, delete the claim and the pods that use it: kubectl delete -n %[2]s persistentvolumeclaim/%[1]s pod/%[3]s.%[4]s", claim, o.Pod.Namespace, o.Pod.Name, says)
		}
		return newDiagnosis(ProviderScheduling, scheduled.Reason, ProviderOperator, "No node of the provider takes the pod: %s", scheduled.Message)
	}
	return nil
}

// virtualNode returns the virtual node that the pod is bound to; nil if it is not known.
func (o *Observed) virtualNode() *virtualNode {
	i := slices.IndexFunc(o.Facts.VirtualNodes, func(vn offloadingv1beta1.VirtualNode) bool { return vn.Name == o.Pod.Spec.NodeName })
	if i < 0 || !o.isOffloaded() {
		return nil
	}
	vn := &o.Facts.VirtualNodes[i]
	return &virtualNode{VirtualNode: vn, node: o.Node, reflectors: readReflectors(vn)}
}
