package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"
	schedulingcorev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/namespaceoffloading"
	"github.com/longshore-dev/longshore/host/forge/local"
)

// reasonUnschedulable is the reason of a pod that no virtual node takes.
const reasonUnschedulable = "Unschedulable"

// virtualNode is a VirtualNode with its Node.
type virtualNode struct {
	*offloadingv1beta1.VirtualNode

	node *corev1.Node
}

// virtualNodes returns the virtual nodes that have a Node, by name.
func virtualNodes(facts *Facts) []*virtualNode {
	var nodes []*virtualNode
	for i := range facts.VirtualNodes {
		vn := &facts.VirtualNodes[i]
		if create := vn.Spec.CreateNode; create != nil && !*create {
			continue
		}
		node := facts.Nodes[vn.Name]
		if node == nil {
			node = local.Node(local.NodeInput{VirtualNode: vn})
			node.Labels = namespaceoffloading.ExpectedNode(vn).Labels
		}
		nodes = append(nodes, &virtualNode{VirtualNode: vn, node: node})
	}
	slices.SortFunc(nodes, func(a, b *virtualNode) int { return cmp.Compare(a.Name, b.Name) })
	return nodes
}

// namespaceMaps returns the maps by provider; nil if they are not known.
func namespaceMaps(list []offloadingv1beta1.NamespaceMap) map[string]*offloadingv1beta1.NamespaceMap {
	if list == nil {
		return nil
	}
	maps := map[string]*offloadingv1beta1.NamespaceMap{}
	for i := range list {
		maps[list[i].Labels[liqocorev1beta1.RemoteIDLabel]] = &list[i]
	}
	return maps
}

// schedule evaluates the virtual nodes as kube-scheduler does, and the mapping of the namespace.
func (p *Planner) schedule(plan *Plan, pod *corev1.Pod, offloading *offloadingv1beta1.NamespaceOffloading) {
	if len(pod.Spec.SchedulingGates) > 0 {
		plan.block(Pending, Scheduling, "SchedulingGated", "The pod has the scheduling gate %q. The controller that added it must remove it.", pod.Spec.SchedulingGates[0].Name)
	}
	requests := podresource.PodRequests(pod, podresource.PodResourcesOptions{})
	var refusals []string
	for _, node := range p.nodes {
		verdict := Node{Name: node.Name, Provider: string(node.Spec.ClusterID)}
		verdict.Reason = p.misfit(pod, requests, node)
		verdict.Fits = verdict.Reason == ""
		mapping := p.mappingProblem(pod.Namespace, node)
		verdict.Mapped = mapping == ""
		if verdict.Fits {
			verdict.Reason = mapping
		} else {
			refusals = append(refusals, fmt.Sprintf("%s: %s", node.Name, verdict.Reason))
		}
		plan.Nodes = append(plan.Nodes, verdict)
	}
	if len(plan.Fitting()) > 0 {
		p.blockUnmapped(plan)
		return
	}
	where := "No virtual node takes the pod"
	if offloading.Spec.PodOffloadingStrategy == offloadingv1beta1.LocalAndRemotePodOffloadingStrategyType {
		where += ", so it stays in this cluster"
	}
	if len(refusals) == 0 {
		plan.block(Pending, Scheduling, reasonUnschedulable, "%s: there is no virtual node. The operator must peer with a provider.", where)
		return
	}
	plan.block(Pending, Scheduling, reasonUnschedulable, "%s: %s.", where, strings.Join(refusals, "; "))
}

// blockUnmapped records a reason if the namespace is not mapped at any node that fits.
func (p *Planner) blockUnmapped(plan *Plan) {
	var reason string
	for i := range plan.Nodes {
		switch node := &plan.Nodes[i]; {
		case !node.Fits:
		case node.Mapped:
			return
		case reason == "":
			reason = node.Reason
		}
	}
	plan.block(Pending, Mapping, offloadingv1beta1.OffloadingBackOffReason, "%s.", reason)
}

// misfit returns why the scheduler does not choose a node, or "". It evaluates in the order of
// the scheduler's filters.
func (p *Planner) misfit(pod *corev1.Pod, requests corev1.ResourceList, node *virtualNode) string {
	unschedulable := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	if node.node.Spec.Unschedulable && !schedulingcorev1.TolerationsTolerateTaint(klog.Background(), pod.Spec.Tolerations, &unschedulable, false) {
		return "the node is cordoned"
	}
	if pod.Spec.NodeName != "" && pod.Spec.NodeName != node.Name {
		return fmt.Sprintf("spec.nodeName is %q", pod.Spec.NodeName)
	}
	prevents := func(taint *corev1.Taint) bool {
		return taint.Effect == corev1.TaintEffectNoSchedule || taint.Effect == corev1.TaintEffectNoExecute
	}
	if taint, found := schedulingcorev1.FindMatchingUntoleratedTaint(klog.Background(), node.node.Spec.Taints, pod.Spec.Tolerations, prevents, false); found {
		return fmt.Sprintf("taint %s is not tolerated", taint.ToString())
	}
	if matches, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node.node); err != nil {
		return fmt.Sprintf("the node affinity is invalid: %v", err)
	} else if !matches {
		return "its labels do not match the pod's node selector and affinity"
	}
	if p.facts.IgnoreResources {
		return ""
	}
	return lacking(requests, node.node.Status.Allocatable, p.facts.Requested[node.Name])
}

// lacking returns which request exceeds what is left of a node's resources, or "".
func lacking(requests, allocatable, used corev1.ResourceList) string {
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
		switch {
		case request.IsZero() || request.Cmp(left) <= 0:
		case name == string(corev1.ResourcePods):
			return fmt.Sprintf("too many pods: spec.resourceQuota.hard.pods leaves %s", left.String())
		default:
			return fmt.Sprintf("insufficient %s: %s requested, %s left", name, request.String(), left.String())
		}
	}
	return ""
}

// mappingProblem returns why a namespace has no namespace at a provider, or "".
func (p *Planner) mappingProblem(namespace string, node *virtualNode) string {
	provider := string(node.Spec.ClusterID)
	if !p.selects(namespace, provider) {
		return fmt.Sprintf("namespace %q is not offloaded to cluster %q: the clusterSelector of its NamespaceOffloading matches no virtual node of it", namespace, provider)
	}
	if p.maps == nil {
		return ""
	}
	nm := p.maps[provider]
	if nm == nil {
		return fmt.Sprintf("cluster %q has no NamespaceMap: the operator must look at the conditions of VirtualNode %q", provider, node.Name)
	}
	current, known := nm.Status.CurrentMapping[namespace]
	switch {
	case !known:
		return fmt.Sprintf("cluster %q has not created the namespace for %q yet", provider, namespace)
	case current.Phase != offloadingv1beta1.MappingAccepted:
		return fmt.Sprintf("cluster %q did not create namespace %q: %s %s", provider, current.RemoteNamespace, current.Phase, current.Message)
	default:
		return ""
	}
}
