package status

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"

	"github.com/longshore-dev/longshore/cmd/longshorectl/resourceslice"
	"github.com/longshore-dev/longshore/cmd/longshorectl/virtualnode"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/podend"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// The states of a module of a peering.
const (
	healthy   = "Healthy"
	unhealthy = "Unhealthy"
	disabled  = "Disabled"
)

// Report is what status and info print.
type Report struct {
	// Cluster that was looked at.
	Cluster Local `json:"cluster"`
	// Problems, those of this cluster first.
	Problems []Problem `json:"problems"`
	// Unread are the resources that the user may not list.
	Unread []string `json:"unread,omitempty"`
	// Peers by cluster ID.
	Peers []Peer `json:"peers"`
	// Namespaces that are offloaded.
	Namespaces []Namespace `json:"namespaces"`
}

// Local is the cluster that was looked at.
type Local struct {
	ClusterID string `json:"clusterID"`
	APIServer string `json:"apiServer"`
	Namespace string `json:"namespace"`
}

// Problem is something that is wrong.
type Problem struct {
	// Peer that it concerns; empty for this cluster by itself.
	Peer string `json:"peer,omitempty"`
	// Object and Message say what is wrong.
	Object  string `json:"object"`
	Message string `json:"message"`
	// Actor is the cluster ID whose administrator must act; empty when Longshore retries.
	Actor string `json:"actor,omitempty"`
	// Action is what to do.
	Action string `json:"action"`
}

// Peer is a cluster that this one is peered with.
type Peer struct {
	ClusterID string `json:"clusterID"`
	// Role of the peer.
	Role string `json:"role"`
	// Networking, Authentication and Offloading are Healthy, Unhealthy or Disabled.
	Networking     string `json:"networking"`
	Authentication string `json:"authentication"`
	Offloading     string `json:"offloading"`
	// APIServer is the URL of the peer's API server, and APIServerStatus the result of its probe.
	APIServer       string `json:"apiServer,omitempty"`
	APIServerStatus string `json:"apiServerStatus,omitempty"`
	// LocalNamespace and RemoteNamespace are the tenant namespaces.
	LocalNamespace  string `json:"localNamespace,omitempty"`
	RemoteNamespace string `json:"remoteNamespace,omitempty"`
	// Tenant is the condition of a consumer: Active, Cordoned or Drained.
	Tenant string `json:"tenant,omitempty"`
	// Slices and VirtualNodes of the peering.
	Slices       []Slice       `json:"slices"`
	VirtualNodes []VirtualNode `json:"virtualNodes"`
}

// Slice is a grant.
type Slice struct {
	Name string `json:"name"`
	// Action of this cluster: Consuming or Providing.
	Action string `json:"action"`
	// State is Accepted, Denied or Pending.
	State string `json:"state"`
	// Cordoned is "slice", "tenant" or empty.
	Cordoned string `json:"cordoned,omitempty"`
	// Granted resources, and those that pods request of them.
	Granted corev1.ResourceList `json:"granted"`
	Used    corev1.ResourceList `json:"used"`
}

// VirtualNode is a share of a provider as a node.
type VirtualNode struct {
	Name     string              `json:"name"`
	Node     string              `json:"node"`
	Kubelet  string              `json:"kubelet"`
	Secret   string              `json:"secret,omitempty"`
	Capacity corev1.ResourceList `json:"capacity"`
	Used     corev1.ResourceList `json:"used"`
}

// Namespace is an offloaded namespace.
type Namespace struct {
	Name       string `json:"name"`
	RemoteName string `json:"remoteName"`
	Pods       string `json:"pods"`
	Phase      string `json:"phase"`
}

// build makes a report. It is pure.
func build(s *snapshot) *Report {
	report := &Report{
		Cluster:  Local{ClusterID: string(s.id), APIServer: s.host, Namespace: s.namespace},
		Problems: problems(s), Unread: s.unread, Peers: []Peer{}, Namespaces: []Namespace{},
	}
	for i := range s.foreignClusters.Items {
		report.Peers = append(report.Peers, peer(s, &s.foreignClusters.Items[i]))
	}
	slices.SortFunc(report.Peers, func(a, b Peer) int { return strings.Compare(a.ClusterID, b.ClusterID) })
	for i := range s.offloadings.Items {
		nso := &s.offloadings.Items[i]
		report.Namespaces = append(report.Namespaces, Namespace{
			Name: nso.Namespace, RemoteName: nso.Status.RemoteNamespaceName,
			Pods: string(nso.Spec.PodOffloadingStrategy), Phase: cmp.Or(string(nso.Status.OffloadingPhase), "InProgress"),
		})
	}
	slices.SortFunc(report.Namespaces, func(a, b Namespace) int { return strings.Compare(a.Name, b.Name) })
	return report
}

func peer(s *snapshot, fc *liqocorev1beta1.ForeignCluster) Peer {
	id := fc.Spec.ClusterID
	p := Peer{
		ClusterID: string(id), Role: string(fc.Status.Role),
		Networking: module(fc.Status.Modules.Networking), Authentication: module(fc.Status.Modules.Authentication), Offloading: module(fc.Status.Modules.Offloading),
		APIServer: fc.Status.APIServerURL, LocalNamespace: fc.Status.TenantNamespace.Local, RemoteNamespace: fc.Status.TenantNamespace.Remote,
		Slices: []Slice{}, VirtualNodes: []VirtualNode{},
	}
	for _, c := range fc.Status.Conditions {
		if c.Type == liqocorev1beta1.APIServerStatusCondition {
			p.APIServerStatus = string(c.Status)
		}
	}
	for i := range s.tenants.Items {
		if tenant := &s.tenants.Items[i]; tenant.Spec.ClusterID == id {
			p.Tenant = string(cmp.Or(tenant.Spec.TenantCondition, authv1beta1.TenantConditionActive))
		}
	}
	for i := range s.slices.Items {
		if slice := &s.slices.Items[i]; slice.Labels[liqocorev1beta1.RemoteClusterIDLabel] == string(id) {
			p.Slices = append(p.Slices, grant(s, slice))
		}
	}
	for i := range s.virtualNodes.Items {
		if vn := &s.virtualNodes.Items[i]; vn.Spec.ClusterID == id {
			p.VirtualNodes = append(p.VirtualNodes, VirtualNode{
				Name: vn.Name, Node: nodeState(s, vn), Kubelet: string(virtualnode.ConditionStatus(vn, offloadingv1beta1.VirtualKubeletConditionType)),
				Secret: secretOf(vn), Capacity: vn.Spec.ResourceQuota.Hard, Used: usedOn(s, func(node string) bool { return node == vn.Name }),
			})
		}
	}
	slices.SortFunc(p.Slices, func(a, b Slice) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(p.VirtualNodes, func(a, b VirtualNode) int { return strings.Compare(a.Name, b.Name) })
	return p
}

// module summarizes the conditions of a module.
func module(m liqocorev1beta1.Module) string {
	if !m.Enabled {
		return disabled
	}
	if slices.ContainsFunc(m.Conditions, isBad) {
		return unhealthy
	}
	return healthy
}

func isBad(c liqocorev1beta1.Condition) bool {
	return c.Status != liqocorev1beta1.ConditionStatusEstablished && c.Status != liqocorev1beta1.ConditionStatusReady
}

func grant(s *snapshot, slice *authv1beta1.ResourceSlice) Slice {
	g := Slice{Name: slice.Name, Action: "Consuming", State: "Pending", Cordoned: resourceslice.Cordoned(slice), Granted: slice.Status.Resources}
	if resourceslice.IsAccepted(slice) {
		g.State = "Accepted"
	} else if slices.ContainsFunc(slice.Status.Conditions, isDenied) {
		g.State = "Denied"
	}
	if resourceslice.IsCopy(slice) {
		g.Action, g.Used = "Providing", usedBy(s, slice)
		return g
	}
	secret, nodes := authentication.KubeconfigSecretName(authentication.SliceIdentityName(slice.Name)), map[string]bool{}
	for i := range s.virtualNodes.Items {
		if vn := &s.virtualNodes.Items[i]; vn.Namespace == slice.Namespace && secretOf(vn) == secret {
			nodes[vn.Name] = true
		}
	}
	g.Used = usedOn(s, func(node string) bool { return nodes[node] })
	return g
}

func isDenied(c authv1beta1.ResourceSliceCondition) bool {
	return c.Status == authv1beta1.ResourceSliceConditionDenied
}

// usedOn sums the requests of pods on nodes.
func usedOn(s *snapshot, isCounted func(node string) bool) corev1.ResourceList {
	used := corev1.ResourceList{}
	for i := range s.pods {
		if pod := &s.pods[i]; isCounted(pod.Spec.NodeName) && !podend.IsTerminal(pod.Status.Phase) {
			add(used, requestsOf(pod))
		}
	}
	return used
}

// usedBy sums what a consumer's slice pays for: the ShadowPods that the user of the slice created, or, if
// they do not say so, those of the virtual node of its name, and pods whose ShadowPods or slices are gone.
func usedBy(s *snapshot, slice *authv1beta1.ResourceSlice) corev1.ResourceList {
	consumer := ptr.Deref(slice.Spec.ConsumerClusterID, "")
	user, used := authentication.SliceSubject(consumer, slice.Name).User, corev1.ResourceList{}
	for i := range s.shadowPods.Items {
		shadow := &s.shadowPods.Items[i]
		creator, ok := shadow.Labels[offloadingv1beta1.CreatorUserLabel]
		ofNode := shadow.Labels[offloadingv1beta1.OriginLabel] == string(consumer) && shadow.Labels[offloadingv1beta1.NodeNameLabel] == slice.Name
		if (creator == user || !ok && ofNode) && !podend.IsTerminal(shadow.Status.Phase) {
			add(used, requestsOf(&corev1.Pod{Spec: shadow.Spec.Pod}))
		}
	}
	for i := range s.quotas.Items {
		if quota := &s.quotas.Items[i]; quota.Spec.User == user {
			add(used, quota.Status.Ending)
			add(used, quota.Status.Abandoned)
		}
	}
	return used
}

// onePod is what a pod takes of the resource pods.
var onePod = apiresource.MustParse("1")

func requestsOf(pod *corev1.Pod) corev1.ResourceList {
	requests := resource.PodRequests(pod, resource.PodResourcesOptions{})
	requests[corev1.ResourcePods] = onePod.DeepCopy()
	return requests
}

func add(used, amounts corev1.ResourceList) {
	for name, amount := range amounts {
		sum := used[name]
		sum.Add(amount)
		used[name] = sum
	}
}

func secretOf(vn *offloadingv1beta1.VirtualNode) string {
	return ptr.Deref(vn.Spec.KubeconfigSecretRef, corev1.LocalObjectReference{}).Name
}

// nodeState returns Ready, NotReady or Missing, None for a VirtualNode without a Node, or Unknown if Nodes were not
// read.
func nodeState(s *snapshot, vn *offloadingv1beta1.VirtualNode) string {
	if !ptr.Deref(vn.Spec.CreateNode, true) {
		return "None"
	}
	switch ready, found := readiness(s, vn.Name); {
	case !s.isKnown(resourceNodes):
		return "Unknown"
	case !found:
		return "Missing"
	case ready.Status == corev1.ConditionTrue:
		return "Ready"
	default:
		return "NotReady"
	}
}

// readiness returns the condition Ready of a Node.
func readiness(s *snapshot, name string) (ready corev1.NodeCondition, found bool) {
	node := s.node(name)
	if node == nil {
		return ready, false
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			ready = c
		}
	}
	return ready, true
}

// node returns the Node of a VirtualNode, nil for none.
func (s *snapshot) node(name string) *corev1.Node {
	for i := range s.nodes.Items {
		if s.nodes.Items[i].Name == name {
			return &s.nodes.Items[i]
		}
	}
	return nil
}
