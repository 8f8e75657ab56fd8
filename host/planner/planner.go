// Package planner predicts what Longshore does with pods before they are created: the admitted
// pod, the virtual nodes on which it may land, the ShadowPod that is sent to the provider, what
// changed on the way and why, what else must be in the provider, and the first reason why the
// pod would not run there.
//
// The package decides nothing about pods. It calls the handler of the pod webhook
// (host/consumer/admission/podplacement), the helpers of kube-scheduler (k8s.io/component-helpers)
// and the forge of the virtual kubelet (host/consumer/reflection/pod) with facts from files or
// from a cluster. It reads neither: the facts come in.
//
// Limits: pods are planned one by one, so replicas do not compete for resources; affinity to
// other pods and spreading over topologies, which depend on those pods, are not evaluated; and
// what the provider's own admission and scheduler decide is not known here.
package planner

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/admission/podplacement"
	"github.com/longshore-dev/longshore/host/consumer/namespaceoffloading"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
	"github.com/longshore-dev/longshore/host/policy/view"
)

// Facts are what is known about the consumer. The planner does not alter them.
type Facts struct {
	// HomeClusterID is the consumer's ClusterID.
	HomeClusterID string
	// RuntimeClassName is the cluster's Liqo runtime class.
	RuntimeClassName string
	// Namespaces by name. A namespace that is not listed has no labels.
	Namespaces map[string]*corev1.Namespace
	// Offloadings are the NamespaceOffloadings by namespace.
	Offloadings map[string]*offloadingv1beta1.NamespaceOffloading
	// DefaultOffloading is that of namespaces that Offloadings does not list; nil if those are
	// not offloaded.
	DefaultOffloading *offloadingv1beta1.NamespaceOffloading
	// VirtualNodes of the consumer.
	VirtualNodes []offloadingv1beta1.VirtualNode
	// Nodes are the Nodes that exist, by name. The Node of a VirtualNode that is not listed is
	// computed from the VirtualNode.
	Nodes map[string]*corev1.Node
	// Requested are the requests of the pods on a Node, by its name, with their number as
	// resource "pods".
	Requested map[string]corev1.ResourceList
	// Held are the pods on a Node that no node of its provider takes, by the Node's name. Their requests
	// are part of Requested.
	Held map[string][]string
	// Replaced are the requests of the pods that a workload has on a Node already, by the Node's
	// name. They are part of Requested and are not counted against the pods of the workload.
	Replaced map[Workload]map[string]corev1.ResourceList
	// IgnoreResources omits the comparison of requests and capacity, for assumed nodes.
	IgnoreResources bool
	// NamespaceMaps of the consumer; nil if the mappings are not known, and a selected provider
	// then counts as mapped.
	NamespaceMaps []offloadingv1beta1.NamespaceMap
	// Inventory has the objects that pods refer to.
	Inventory *Inventory
	// Assumed says what was not given and is assumed; it is repeated in every plan.
	Assumed []string
	// NodeName selects the virtual node of the ShadowPod; the first that fits when empty.
	NodeName string
}

// Planner plans pods. It is safe for concurrent use.
type Planner struct {
	facts     Facts
	evaluator view.Evaluator
	handler   *podplacement.Handler
	nodes     []*virtualNode
	selected  map[string]map[string]bool
	maps      map[string]*offloadingv1beta1.NamespaceMap
}

// New returns a planner that asks an evaluator for the answers of policies.
func New(facts Facts, evaluator view.Evaluator) (*Planner, error) {
	if facts.Inventory == nil {
		facts.Inventory = NewInventory(false)
	}
	p := &Planner{
		facts: facts, evaluator: evaluator, selected: map[string]map[string]bool{}, nodes: virtualNodes(&facts), maps: namespaceMaps(facts.NamespaceMaps),
	}
	p.handler = &podplacement.Handler{Reader: offloadings{p}, Policies: evaluator, RuntimeClassName: facts.RuntimeClassName}
	if facts.NodeName != "" && !slices.ContainsFunc(p.nodes, func(n *virtualNode) bool { return n.Name == facts.NodeName }) {
		return nil, fmt.Errorf("there is no virtual node %q", facts.NodeName)
	}
	offloadings := map[string]*offloadingv1beta1.NamespaceOffloading{"": facts.DefaultOffloading}
	for namespace, offloading := range facts.Offloadings {
		offloadings[namespace] = offloading
	}
	for namespace, offloading := range offloadings {
		if offloading == nil {
			continue
		}
		selected, err := namespaceoffloading.Selected(&offloading.Spec.ClusterSelector, facts.VirtualNodes, facts.Nodes)
		if err != nil {
			return nil, fmt.Errorf("reading the NamespaceOffloading of namespace %q: %w", namespace, err)
		}
		p.selected[namespace] = selected
	}
	return p, nil
}

// offloading returns the NamespaceOffloading of a namespace; nil if it is not offloaded.
func (p *Planner) offloading(namespace string) *offloadingv1beta1.NamespaceOffloading {
	if offloading := p.facts.Offloadings[namespace]; offloading != nil {
		return offloading
	}
	return p.facts.DefaultOffloading
}

// selects reports whether a namespace is offloaded to a provider.
func (p *Planner) selects(namespace, provider string) bool {
	if p.facts.Offloadings[namespace] == nil {
		namespace = ""
	}
	return p.selected[namespace][provider]
}

// Plan predicts what becomes of the pods of a template. An error is a failure of the planner,
// not of the pod.
func (p *Planner) Plan(ctx context.Context, template Template) (*Plan, error) {
	plan := &Plan{
		Kind: template.Kind, Namespace: template.Pod.Namespace, Name: template.Name, Replicas: template.Replicas, Assumed: p.facts.Assumed,
	}
	pod := template.Pod
	if missing := missingFields(pod); len(missing) > 0 {
		plan.block(Refused, Admission, ReasonInvalid, "The API server refuses %s: %s", plan, missing.ToAggregate().Error())
		return plan, nil
	}
	offloading := p.offloading(pod.Namespace)
	switch {
	case offloading == nil:
		plan.local(ReasonNamespaceNotOffloaded, fmt.Sprintf("Namespace %q has no NamespaceOffloading, so its pods stay in this cluster.", pod.Namespace))
		return plan, nil
	case offloading.Spec.PodOffloadingStrategy == offloadingv1beta1.LocalPodOffloadingStrategyType:
		plan.local(ReasonStrategyLocal, fmt.Sprintf("The NamespaceOffloading of namespace %q has the strategy Local, so its pods stay in this cluster.", pod.Namespace))
		return plan, nil
	}
	admitted, err := p.admit(ctx, plan, withDefaults(pod))
	if err != nil {
		return nil, fmt.Errorf("planning the admission of %s: %w", plan, err)
	}
	if admitted == nil {
		return plan, nil
	}
	plan.AdmittedPod = admitted
	p.schedule(plan, pod, admitted, offloading)
	if err := p.send(ctx, plan, admitted, offloading); err != nil {
		return nil, fmt.Errorf("planning the ShadowPod of %s: %w", plan, err)
	}
	p.follow(plan, template.Claims)
	plan.settle(offloading.Spec.PodOffloadingStrategy)
	return plan, nil
}

// send forges the ShadowPod for the virtual node that was selected, or the first that fits.
func (p *Planner) send(ctx context.Context, plan *Plan, admitted *corev1.Pod, offloading *offloadingv1beta1.NamespaceOffloading) error {
	for i, node := range p.nodes {
		verdict := &plan.Nodes[i]
		if !verdict.Fits || !verdict.Mapped || p.facts.NodeName != "" && p.facts.NodeName != node.Name {
			continue
		}
		plan.node = node
		if node.reflector(resourcePod).isDisabled {
			plan.block(Pending, Forging, ReasonPodsNotReflected, "The virtual kubelet of node %q runs no pods (%s=0). The operator must change its VirtualNode.", node.Name, virtualkubelet.WorkersFlag(resourcePod))
		}
		bound := *admitted
		bound.Spec.NodeName = node.Name
		return p.forge(ctx, plan, node, &bound, namespaceoffloading.RemoteName(bound.Namespace, &offloading.Spec, p.facts.HomeClusterID))
	}
	return nil
}

func (p *Planner) origin(node *virtualNode) remote.Origin {
	origin := remote.Origin{HomeClusterID: p.facts.HomeClusterID, ProviderClusterID: string(node.Spec.ClusterID), NodeName: node.Name, APIServer: apiServer(node.VirtualNode), AudienceTokens: sendsAudienceTokens(node.VirtualNode)}
	if len(node.Spec.StorageClasses) > 0 {
		origin.VirtualStorageClass = p.facts.Inventory.virtualClass()
	}
	return origin
}

// String names the template, as "deployment/web".
func (p *Plan) String() string { return strings.ToLower(p.Kind) + "/" + p.Name }
