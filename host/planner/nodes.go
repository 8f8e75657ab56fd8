package planner

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	podresource "k8s.io/component-helpers/resource"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/local"
)

// virtualNode is a VirtualNode with its Node.
type virtualNode struct {
	*offloadingv1beta1.VirtualNode

	node       *corev1.Node
	reflectors map[string]reflector
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
			node.Labels = local.InitialNode(vn).Labels
		}
		nodes = append(nodes, &virtualNode{VirtualNode: vn, node: node, reflectors: readReflectors(vn)})
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
// The template is the pod as its controller creates it.
func (p *Planner) schedule(plan *Plan, template, pod *corev1.Pod, offloading *offloadingv1beta1.NamespaceOffloading) {
	if len(pod.Spec.SchedulingGates) > 0 {
		plan.block(Pending, Scheduling, corev1.PodReasonSchedulingGated, "%s", describeGates(pod))
	}
	requests := podresource.PodRequests(pod, podresource.PodResourcesOptions{})
	replaced := p.facts.Replaced[Workload{plan.Kind, plan.Namespace, plan.Name}]
	var misfits []*misfit
	for _, node := range p.nodes {
		found := findDaemonMisfit(plan.Kind, template, node)
		if found == nil {
			found = p.findMisfit(pod, requests, replaced[node.Name], node)
		}
		mapping := p.mappingProblem(pod.Namespace, node)
		verdict := Node{Name: node.Name, Provider: string(node.Spec.ClusterID), Fits: found == nil, Mapped: mapping == "", Reason: mapping}
		if found != nil {
			verdict.Reason = found.message
			misfits = append(misfits, found)
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
	reason := corev1.PodReasonUnschedulable
	if len(misfits) == 0 {
		reason = ReasonNoVirtualNode
	}
	plan.block(Pending, Scheduling, reason, "%s: %s.", where, describeMisfits(misfits))
}

// findDaemonMisfit returns why the controller of a DaemonSet creates no pod for a node; nil if it does, and for
// other kinds. It looks at the template, which the webhook does not change.
func findDaemonMisfit(kind string, template *corev1.Pod, node *virtualNode) *misfit {
	if kind != "DaemonSet" {
		return nil
	}
	taint := findTaint(template, node.node, func(key string) bool { return key == offloadingv1beta1.VirtualNodeTaintKey })
	if taint == nil {
		return nil
	}
	return &misfit{node: node.Name, rank: rankTaint, who: Owner, message: fmt.Sprintf("the template of the DaemonSet does not tolerate taint %s, so its controller creates no pod for the node", taint.ToString())}
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
	case current.IsEnding():
		return fmt.Sprintf("cluster %q deletes namespace %q: %s", provider, current.RemoteNamespace, current.Message)
	case current.Phase == offloadingv1beta1.MappingTerminating:
		return fmt.Sprintf("cluster %q deletes namespace %q %s", provider, current.RemoteNamespace, current.Message)
	case current.Phase != offloadingv1beta1.MappingAccepted:
		return fmt.Sprintf("cluster %q did not create namespace %q: %s %s", provider, current.RemoteNamespace, current.Phase, current.Message)
	default:
		return ""
	}
}
