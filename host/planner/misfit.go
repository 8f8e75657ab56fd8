package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	schedulingcorev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// The ranks of misfits. A virtual node with a higher one is closer to the pod: what the pod asks for
// excludes a node on purpose more often than the state of the node does.
const (
	rankExcluded = iota
	rankLabels
	rankTaint
	rankNotAdmitted
	rankState
	rankResources
)

// misfit is why the scheduler does not choose a virtual node.
type misfit struct {
	node, message string
	// who can correct it.
	who  string
	rank int
}

// describeMisfits returns why no virtual node takes a pod, the closest one first. It sorts them.
func describeMisfits(misfits []*misfit) string {
	const shown = 3
	if len(misfits) == 0 {
		return "there is no virtual node. The operator must peer with a provider"
	}
	slices.SortStableFunc(misfits, func(a, b *misfit) int { return cmp.Compare(b.rank, a.rank) })
	var texts []string
	for _, m := range misfits[:min(len(misfits), shown)] {
		texts = append(texts, m.node+": "+m.message)
	}
	if more := len(misfits) - shown; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more virtual nodes", more))
	}
	return strings.Join(texts, "; ")
}

// stateTaints are those with which Kubernetes marks the state of a Node.
var stateTaints = []string{
	corev1.TaintNodeUnschedulable, corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeNetworkUnavailable,
	corev1.TaintNodeMemoryPressure, corev1.TaintNodeDiskPressure, corev1.TaintNodePIDPressure, corev1.TaintNodeOutOfService,
}

// findMisfit returns why the scheduler does not choose a node; nil if it may. It evaluates in the order
// of the ranks. The requests in replaced are not counted against the pod.
func (p *Planner) findMisfit(pod *corev1.Pod, requests, replaced corev1.ResourceList, node *virtualNode) *misfit {
	refuse := func(rank int, who, format string, arguments ...any) *misfit {
		return &misfit{node: node.Name, rank: rank, who: who, message: fmt.Sprintf(format, arguments...)}
	}
	if pod.Spec.NodeName != "" && pod.Spec.NodeName != node.Name {
		return refuse(rankExcluded, Owner, "spec.nodeName is %q", pod.Spec.NodeName)
	}
	if matches, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node.node); err != nil {
		return refuse(rankLabels, Owner, "the node affinity is invalid: %v", err)
	} else if !matches {
		if p.offloading(pod.Namespace) != nil && !p.selects(pod.Namespace, string(node.Spec.ClusterID)) {
			return refuse(rankExcluded, Operator, "its labels do not match the clusterSelector of the NamespaceOffloading")
		}
		return refuse(rankLabels, Owner, "its labels do not match the pod's node selector and affinity")
	}
	if taint := findTaint(pod, node.node, func(key string) bool {
		return key != offloadingv1beta1.VirtualNodeTaintKey && !slices.Contains(stateTaints, key)
	}); taint != nil {
		return refuse(rankTaint, Owner, "taint %s is not tolerated", taint.ToString())
	}
	if taint := findTaint(pod, node.node, func(key string) bool { return key == offloadingv1beta1.VirtualNodeTaintKey }); taint != nil {
		return refuse(rankNotAdmitted, Owner, "taint %s is not tolerated", taint.ToString())
	}
	unschedulable := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	if node.node.Spec.Unschedulable && !schedulingcorev1.TolerationsTolerateTaint(klog.Background(), pod.Spec.Tolerations, &unschedulable, false) {
		return refuse(rankState, Operator, "the node is cordoned")
	}
	if taint := findTaint(pod, node.node, func(key string) bool { return slices.Contains(stateTaints, key) }); taint != nil {
		return refuse(rankState, Operator, "%s", describeState(node.node, taint))
	}
	if p.facts.IgnoreResources {
		return nil
	}
	if shortage := findShortage(requests, node.node.Status.Allocatable, p.facts.Requested[node.Name], replaced); shortage != "" {
		return refuse(rankResources, Operator, "%s%s", shortage, describeHeld(p.facts.Held[node.Name]))
	}
	return nil
}

// describeGates says which scheduling gates a pod waits for.
func describeGates(pod *corev1.Pod) string {
	var names []string
	for _, gate := range pod.Spec.SchedulingGates {
		names = append(names, strconv.Quote(gate.Name))
	}
	if len(names) == 1 {
		return fmt.Sprintf("The pod has the scheduling gate %s. The controller that added it must remove it.", names[0])
	}
	return fmt.Sprintf("The pod has the scheduling gates %s. The controllers that added them must remove them.", strings.Join(names, ", "))
}

// HoldsCapacity reports whether a pod takes the capacity of a virtual node and does not run, because no
// node of the provider takes it. The pod has the condition of its remote pod.
func HoldsCapacity(pod *corev1.Pod) bool {
	scheduled := condition(pod, corev1.PodScheduled)
	return pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodPending &&
		scheduled != nil && scheduled.Status == corev1.ConditionFalse && scheduled.Reason == corev1.PodReasonUnschedulable
}

// describeHeld says which pods hold the capacity of a virtual node, or "".
func describeHeld(pods []string) string {
	const shown = 3
	if len(pods) == 0 {
		return ""
	}
	more := ""
	if n := len(pods) - shown; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf(" (pods that no node of the provider takes hold a part: %s%s)", strings.Join(pods[:min(len(pods), shown)], ", "), more)
}

// findTaint returns the first taint of a Node, of those whose key is selected, that keeps a pod away;
// nil if it has none.
func findTaint(pod *corev1.Pod, node *corev1.Node, isSelected func(key string) bool) *corev1.Taint {
	prevents := func(taint *corev1.Taint) bool {
		return (taint.Effect == corev1.TaintEffectNoSchedule || taint.Effect == corev1.TaintEffectNoExecute) && isSelected(taint.Key)
	}
	taint, found := schedulingcorev1.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, pod.Spec.Tolerations, prevents, false)
	if !found {
		return nil
	}
	return &taint
}

// describeState says what a taint that marks the state of a Node means.
func describeState(node *corev1.Node, taint *corev1.Taint) string {
	if ready := notReady(node); ready != nil {
		return "the node is not ready: " + cmp.Or(strings.TrimSuffix(ready.Message, "."), ready.Reason)
	}
	return fmt.Sprintf("the node has the taint %s", taint.ToString())
}

// notReady returns the condition Ready of a Node that is not ready; nil if it is.
func notReady(node *corev1.Node) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

// findShortage returns which request exceeds what is left of a node's resources, or "". Of used, the
// pod takes the place of replaced.
func findShortage(requests, allocatable, used, replaced corev1.ResourceList) string {
	wanted := requests.DeepCopy()
	if wanted == nil {
		wanted = corev1.ResourceList{}
	}
	wanted[corev1.ResourcePods] = resource.MustParse("1")
	names := make([]string, 0, len(wanted))
	for name := range wanted {
		names = append(names, string(name))
	}
	slices.Sort(names)
	for _, name := range names {
		request := wanted[corev1.ResourceName(name)]
		left := allocatable[corev1.ResourceName(name)].DeepCopy()
		left.Sub(used[corev1.ResourceName(name)])
		left.Add(replaced[corev1.ResourceName(name)])
		switch {
		case request.IsZero() || request.Cmp(left) <= 0:
		case left.Sign() < 0:
			left.Neg()
			return fmt.Sprintf("insufficient %s: %s requested, and the pods on the node request %s more than it has", name, request.String(), left.String())
		case name == string(corev1.ResourcePods):
			return fmt.Sprintf("too many pods: spec.resourceQuota.hard.pods leaves %s", left.String())
		default:
			return fmt.Sprintf("insufficient %s: %s requested, %s left", name, request.String(), left.String())
		}
	}
	return ""
}
