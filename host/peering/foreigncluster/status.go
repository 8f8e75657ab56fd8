package foreigncluster

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	networkingv1beta1 "github.com/longshore-dev/longshore/host/apis/networking/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// Reasons of the conditions.
const (
	reasonTenantReady             = "TenantReady"
	reasonTenantNotReady          = "TenantNotReady"
	reasonIdentityReady           = "IdentityReady"
	reasonIdentityNotReady        = "IdentityNotReady"
	reasonVirtualNodesReady       = "VirtualNodesReady"
	reasonVirtualNodesNotReady    = "VirtualNodesNotReady"
	reasonSomeVirtualNodesUnready = "SomeVirtualNodesNotReady"
	reasonNodesReady              = "NodesReady"
	reasonNodesNotReady           = "NodesNotReady"
	reasonSomeNodesUnready        = "SomeNodesNotReady"
	reasonConfigurationPresent    = "NetworkConfigurationPresence"
	reasonConnectionEstablished   = "ConnectionEstablished"
	reasonConnectionPending       = "ConnectionPending"
	reasonConnectionError         = "ConnectionError"
	reasonConnectionMissing       = "ConnectionMissing"
)

// facts are the objects of one peer.
type facts struct {
	// tenant is the peer as a consumer; identity as a provider, which kubeconfig is, too,
	// when the peering was made by hand.
	tenant     *authv1beta1.Tenant
	identity   *authv1beta1.Identity
	kubeconfig *corev1.Secret
	// server is the address in the kubeconfig.
	server string

	virtualNodes []offloadingv1beta1.VirtualNode
	nodes        []corev1.Node

	// configuration is what the addresses of the peer are translated by; connection is the tunnel
	// of a fabric.
	configuration *networkingv1beta1.Configuration
	connection    *networkingv1beta1.Connection
}

// decide returns the status of a ForeignCluster. It is pure. Previous conditions
// that stay keep their time; the one of the API server, and those of the gateways of a fabric, are
// kept: other controllers write them.
func decide(fc *liqocorev1beta1.ForeignCluster, f *facts, now metav1.Time) liqocorev1beta1.ForeignClusterStatus {
	previous := &fc.Status
	status := liqocorev1beta1.ForeignClusterStatus{
		ObservedGeneration: fc.Generation,
		Role:               role(f),
		Conditions:         previous.Conditions,
	}
	status.Modules.Networking = networking(&previous.Modules.Networking, f, now)
	status.Modules.Authentication = liqocorev1beta1.Module{
		Enabled:    f.tenant != nil || f.identity != nil || f.kubeconfig != nil,
		Conditions: keepTimes(previous.Modules.Authentication.Conditions, authenticationConditions(f), now),
	}
	status.Modules.Offloading = liqocorev1beta1.Module{
		Enabled:    len(f.virtualNodes) > 0,
		Conditions: keepTimes(previous.Modules.Offloading.Conditions, offloadingConditions(f), now),
	}
	if f.tenant != nil {
		status.TenantNamespace.Local = f.tenant.Status.TenantNamespace
	}
	if f.kubeconfig != nil {
		status.TenantNamespace.Local = f.kubeconfig.Namespace
		status.TenantNamespace.Remote = f.kubeconfig.Annotations[authv1beta1.RemoteTenantNamespaceAnnotation]
		status.APIServerURL = f.server
	}
	if f.identity != nil {
		status.TenantNamespace.Local = f.identity.Namespace
		status.TenantNamespace.Remote = ptr.Deref(f.identity.Spec.Namespace, "")
		status.APIServerURL = f.identity.Spec.AuthParams.APIServer
		status.ForeignProxyURL = ptr.Deref(f.identity.Spec.AuthParams.ProxyURL, "")
	}
	return status
}

// role is that of the remote cluster.
func role(f *facts) liqocorev1beta1.RoleType {
	consumer := f.tenant != nil
	provider := f.identity != nil || f.kubeconfig != nil || len(f.virtualNodes) > 0
	switch {
	case consumer && provider:
		return liqocorev1beta1.ConsumerAndProviderRole
	case consumer:
		return liqocorev1beta1.ConsumerRole
	case provider:
		return liqocorev1beta1.ProviderRole
	default:
		return liqocorev1beta1.UnknownRole
	}
}

func authenticationConditions(f *facts) []liqocorev1beta1.Condition {
	var conditions []liqocorev1beta1.Condition
	if f.tenant != nil {
		tolerated := ptr.Deref(f.tenant.Spec.AuthzPolicy, authv1beta1.KeysExchange) == authv1beta1.TolerateNoHandshake
		ready := f.tenant.Status.TenantNamespace != "" && (f.tenant.Status.AuthParams != nil || tolerated)
		conditions = append(conditions, readiness(liqocorev1beta1.AuthTenantStatusCondition, ready, reasonTenantReady, reasonTenantNotReady,
			fmt.Sprintf("Tenant %s/%s", f.tenant.Namespace, f.tenant.Name)))
	}
	if f.identity != nil {
		conditions = append(conditions, readiness(liqocorev1beta1.AuthIdentityControlPlaneStatusCondition, f.identity.Status.KubeconfigSecretRef != nil,
			reasonIdentityReady, reasonIdentityNotReady, fmt.Sprintf("Identity %s/%s", f.identity.Namespace, f.identity.Name)))
	}
	return conditions
}

func readiness(kind liqocorev1beta1.ConditionType, ready bool, yes, no, object string) liqocorev1beta1.Condition {
	if ready {
		return liqocorev1beta1.Condition{Type: kind, Status: liqocorev1beta1.ConditionStatusReady, Reason: yes, Message: object + " is ready."}
	}
	return liqocorev1beta1.Condition{Type: kind, Status: liqocorev1beta1.ConditionStatusNotReady, Reason: no, Message: object + " is not ready; its status and events say why."}
}

// offloadingConditions count virtual kubelets that run, and Nodes that are ready, of the
// VirtualNodes that have one. A VirtualNode without a running virtual kubelet is not ready (F5).
func offloadingConditions(f *facts) []liqocorev1beta1.Condition {
	if len(f.virtualNodes) == 0 {
		return nil
	}
	running, wanted := 0, map[string]bool{}
	for i := range f.virtualNodes {
		vn := &f.virtualNodes[i]
		for _, c := range vn.Status.Conditions {
			if c.Type == offloadingv1beta1.VirtualKubeletConditionType && c.Status == offloadingv1beta1.RunningConditionStatusType {
				running++
			}
		}
		if ptr.Deref(vn.Spec.CreateNode, true) {
			wanted[vn.Name] = true
		}
	}
	ready := 0
	for i := range f.nodes {
		if wanted[f.nodes[i].Name] && isReady(&f.nodes[i]) {
			ready++
		}
	}
	return []liqocorev1beta1.Condition{
		count(liqocorev1beta1.OffloadingVirtualNodeStatusCondition, running, len(f.virtualNodes), "virtual kubelets run",
			reasonVirtualNodesReady, reasonSomeVirtualNodesUnready, reasonVirtualNodesNotReady),
		count(liqocorev1beta1.OffloadingNodeStatusCondition, ready, len(wanted), "nodes are ready",
			reasonNodesReady, reasonSomeNodesUnready, reasonNodesNotReady),
	}
}

func isReady(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func count(kind liqocorev1beta1.ConditionType, have, want int, what, all, some, none string) liqocorev1beta1.Condition {
	condition := liqocorev1beta1.Condition{
		Type: kind, Status: liqocorev1beta1.ConditionStatusSomeNotReady, Reason: some, Message: fmt.Sprintf("%d of %d %s.", have, want, what),
	}
	switch {
	case have >= want:
		condition.Status, condition.Reason = liqocorev1beta1.ConditionStatusReady, all
	case have == 0:
		condition.Status, condition.Reason = liqocorev1beta1.ConditionStatusNotReady, none
	}
	return condition
}

// keepTimes gives conditions their transition time: that of the previous condition with the
// same status, or now.
func keepTimes(previous, conditions []liqocorev1beta1.Condition, now metav1.Time) []liqocorev1beta1.Condition {
	for i := range conditions {
		conditions[i].LastTransitionTime = now
		for _, p := range previous {
			if p.Type == conditions[i].Type && p.Status == conditions[i].Status {
				conditions[i].LastTransitionTime = p.LastTransitionTime
			}
		}
	}
	return conditions
}
