package foreigncluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

func virtualNode(name string, running bool) offloadingv1beta1.VirtualNode {
	vn := offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if running {
		vn.Status.Conditions = []offloadingv1beta1.VirtualNodeCondition{{
			Type: offloadingv1beta1.VirtualKubeletConditionType, Status: offloadingv1beta1.RunningConditionStatusType,
		}}
	}
	return vn
}

func node(name string, ready corev1.ConditionStatus) corev1.Node {
	return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}},
	}}
}

func readyIdentity() *authv1beta1.Identity {
	return &authv1beta1.Identity{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan"},
		Spec: authv1beta1.IdentitySpec{
			Namespace: ptr.To("liqo-tenant-rome"), AuthParams: authv1beta1.AuthParams{APIServer: "https://milan:6443", ProxyURL: ptr.To("http://proxy:8118")},
		},
		Status: authv1beta1.IdentityStatus{KubeconfigSecretRef: &corev1.LocalObjectReference{Name: "kubeconfig-controlplane-milan"}},
	}
}

func TestStatus(t *testing.T) {
	tenant := &authv1beta1.Tenant{Status: authv1beta1.TenantStatus{TenantNamespace: "liqo-tenant-milan", AuthParams: &authv1beta1.AuthParams{}}}
	identity := readyIdentity()
	for name, tc := range map[string]struct {
		facts          facts
		role           liqocorev1beta1.RoleType
		authentication map[liqocorev1beta1.ConditionType]string
		offloading     map[liqocorev1beta1.ConditionType]string
	}{
		"nothing is left": {role: liqocorev1beta1.UnknownRole},
		"a consumer": {
			facts: facts{tenant: tenant}, role: liqocorev1beta1.ConsumerRole,
			authentication: map[liqocorev1beta1.ConditionType]string{liqocorev1beta1.AuthTenantStatusCondition: reasonTenantReady},
		},
		"a consumer whose handshake is not complete": {
			facts: facts{tenant: &authv1beta1.Tenant{}}, role: liqocorev1beta1.ConsumerRole,
			authentication: map[liqocorev1beta1.ConditionType]string{liqocorev1beta1.AuthTenantStatusCondition: reasonTenantNotReady},
		},
		"a consumer without handshake": {
			facts: facts{tenant: &authv1beta1.Tenant{
				Spec:   authv1beta1.TenantSpec{AuthzPolicy: ptr.To(authv1beta1.TolerateNoHandshake)},
				Status: authv1beta1.TenantStatus{TenantNamespace: "liqo-tenant-milan"},
			}},
			role:           liqocorev1beta1.ConsumerRole,
			authentication: map[liqocorev1beta1.ConditionType]string{liqocorev1beta1.AuthTenantStatusCondition: reasonTenantReady},
		},
		"a provider": {
			facts: facts{identity: identity}, role: liqocorev1beta1.ProviderRole,
			authentication: map[liqocorev1beta1.ConditionType]string{liqocorev1beta1.AuthIdentityControlPlaneStatusCondition: reasonIdentityReady},
		},
		"both": {
			facts: facts{identity: identity, tenant: tenant}, role: liqocorev1beta1.ConsumerAndProviderRole,
			authentication: map[liqocorev1beta1.ConditionType]string{
				liqocorev1beta1.AuthIdentityControlPlaneStatusCondition: reasonIdentityReady,
				liqocorev1beta1.AuthTenantStatusCondition:               reasonTenantReady,
			},
		},
		"a virtual node without a running virtual kubelet (F5)": {
			facts: facts{virtualNodes: []offloadingv1beta1.VirtualNode{virtualNode("a", false)}}, role: liqocorev1beta1.ProviderRole,
			offloading: map[liqocorev1beta1.ConditionType]string{
				liqocorev1beta1.OffloadingVirtualNodeStatusCondition: reasonVirtualNodesNotReady,
				liqocorev1beta1.OffloadingNodeStatusCondition:        reasonNodesNotReady,
			},
		},
		"one virtual node of two": {
			facts: facts{
				virtualNodes: []offloadingv1beta1.VirtualNode{virtualNode("a", true), virtualNode("b", false)},
				nodes:        []corev1.Node{node("a", corev1.ConditionTrue), node("b", corev1.ConditionUnknown), node("foreign", corev1.ConditionTrue)},
			},
			role: liqocorev1beta1.ProviderRole,
			offloading: map[liqocorev1beta1.ConditionType]string{
				liqocorev1beta1.OffloadingVirtualNodeStatusCondition: reasonSomeVirtualNodesUnready,
				liqocorev1beta1.OffloadingNodeStatusCondition:        reasonSomeNodesUnready,
			},
		},
		"all virtual nodes": {
			facts: facts{
				virtualNodes: []offloadingv1beta1.VirtualNode{virtualNode("a", true)}, nodes: []corev1.Node{node("a", corev1.ConditionTrue)},
			},
			role: liqocorev1beta1.ProviderRole,
			offloading: map[liqocorev1beta1.ConditionType]string{
				liqocorev1beta1.OffloadingVirtualNodeStatusCondition: reasonVirtualNodesReady,
				liqocorev1beta1.OffloadingNodeStatusCondition:        reasonNodesReady,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			status := decide(&liqocorev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Generation: 3}}, &tc.facts, metav1.Now())
			assert.Equal(t, int64(3), status.ObservedGeneration)
			assert.Equal(t, tc.role, status.Role)
			assert.Equal(t, tc.authentication, reasons(status.Modules.Authentication))
			assert.Equal(t, tc.offloading, reasons(status.Modules.Offloading))
		})
	}
}

func TestAddressesOfAProvider(t *testing.T) {
	status := decide(&liqocorev1beta1.ForeignCluster{}, &facts{identity: readyIdentity()}, metav1.Now())
	assert.Equal(t, liqocorev1beta1.TenantNamespaceType{Local: "liqo-tenant-milan", Remote: "liqo-tenant-rome"}, status.TenantNamespace)
	assert.Equal(t, "https://milan:6443", status.APIServerURL)
	assert.Equal(t, "http://proxy:8118", status.ForeignProxyURL)
}

// reasons also checks that a module without conditions is not enabled.
func reasons(module liqocorev1beta1.Module) map[liqocorev1beta1.ConditionType]string {
	if !module.Enabled {
		return nil
	}
	found := map[liqocorev1beta1.ConditionType]string{}
	for _, c := range module.Conditions {
		found[c.Type] = c.Reason
	}
	return found
}

func TestConditionsOfOthersAndTimesStay(t *testing.T) {
	before := metav1.NewTime(time.Unix(1, 0))
	fc := &liqocorev1beta1.ForeignCluster{}
	fc.Status.Conditions = []liqocorev1beta1.Condition{{Type: liqocorev1beta1.APIServerStatusCondition, Status: liqocorev1beta1.ConditionStatusError}}
	fc.Status.Modules.Networking.Enabled = true
	fc.Status.Modules.Authentication.Conditions = []liqocorev1beta1.Condition{{
		Type: liqocorev1beta1.AuthTenantStatusCondition, Status: liqocorev1beta1.ConditionStatusNotReady, LastTransitionTime: before,
	}}
	status := decide(fc, &facts{tenant: &authv1beta1.Tenant{}}, metav1.Now())
	assert.Equal(t, fc.Status.Conditions, status.Conditions)
	assert.True(t, status.Modules.Networking.Enabled)
	require.Len(t, status.Modules.Authentication.Conditions, 1)
	assert.Equal(t, before, status.Modules.Authentication.Conditions[0].LastTransitionTime)
}
