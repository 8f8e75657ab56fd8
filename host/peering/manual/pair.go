// Package manual builds the objects of a peering without a handshake, which an
// administrator of both clusters applies. It is pure.
package manual

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// Pair is the two clusters of a peering.
type Pair struct {
	Consumer, Provider liqocorev1beta1.ClusterID
}

// Credential is a client certificate for the provider.
type Credential struct {
	Server           string
	CA               []byte
	Certificate, Key []byte
}

// ConsumerTenant returns the name of the tenant namespace in the consumer.
func (p Pair) ConsumerTenant() string { return authentication.TenantNamespace(p.Provider).Name }

// ProviderTenant returns the name of the tenant namespace in the provider.
func (p Pair) ProviderTenant() string { return authentication.TenantNamespace(p.Consumer).Name }

// ControlPlane returns the subject of the consumer's replicator.
func (p Pair) ControlPlane() authentication.Subject {
	return authentication.ControlPlaneSubject(p.Consumer)
}

// Slice returns the subject of the virtual kubelets of a resource slice.
func (p Pair) Slice(name string) authentication.Subject {
	return authentication.SliceSubject(p.Consumer, name)
}

// ProviderObjects returns the objects that belong into the provider: the tenant namespace, the
// bindings of both subjects, and the priority level of their requests.
func (p Pair) ProviderObjects() []client.Object {
	level, schema := authentication.Isolation(p.Consumer)
	return []client.Object{
		authentication.TenantNamespace(p.Consumer),
		authentication.RoleBinding(p.ProviderTenant(), p.Consumer),
		authentication.ClusterRoleBinding(p.Consumer),
		level, schema,
	}
}

// ConsumerObjects returns the objects that belong into the consumer: the tenant namespace, the
// ForeignCluster without networking, and one kubeconfig Secret each for the replicator and for
// the virtual kubelets of a resource slice.
func (p Pair) ConsumerObjects(slice string, controlPlane, virtualKubelet Credential) ([]client.Object, error) {
	tenant := &authv1beta1.Tenant{Status: authv1beta1.TenantStatus{
		TenantNamespace: p.ProviderTenant(), AuthParams: authParams(controlPlane),
	}}
	identity, err := authentication.ControlPlaneIdentity(p.ConsumerTenant(), p.Provider, tenant)
	if err != nil {
		return nil, err
	}
	controlPlaneSecret, err := authentication.KubeconfigSecret(identity, controlPlane.Key)
	if err != nil {
		return nil, err
	}
	granted := authentication.ResourceSlice(p.ConsumerTenant(), slice, p.Provider, nil, authv1beta1.ResourceSliceSpec{})
	granted.Status.AuthParams = authParams(virtualKubelet)
	sliceSecret, err := authentication.KubeconfigSecret(authentication.SliceIdentity(granted), virtualKubelet.Key)
	if err != nil {
		return nil, err
	}
	return []client.Object{
		authentication.TenantNamespace(p.Provider),
		&liqocorev1beta1.ForeignCluster{
			TypeMeta: metav1.TypeMeta{APIVersion: liqocorev1beta1.GroupVersion.String(), Kind: "ForeignCluster"},
			ObjectMeta: metav1.ObjectMeta{
				Name: string(p.Provider), Labels: map[string]string{liqocorev1beta1.RemoteClusterIDLabel: string(p.Provider)},
			},
			Spec: liqocorev1beta1.ForeignClusterSpec{ClusterID: p.Provider},
		},
		controlPlaneSecret, sliceSecret,
	}, nil
}

func authParams(c Credential) *authv1beta1.AuthParams {
	return &authv1beta1.AuthParams{APIServer: c.Server, CA: c.CA, SignedCRT: c.Certificate}
}

// SliceSecretName returns the name of the kubeconfig Secret of a resource slice.
func SliceSecretName(slice string) string {
	return authentication.KubeconfigSecretName(authentication.SliceIdentityName(slice))
}

// VirtualNode returns a VirtualNode on the provider with the given capacity. It has the name of
// its resource slice.
func (p Pair) VirtualNode(name string, capacity corev1.ResourceList) *offloadingv1beta1.VirtualNode {
	labels := map[string]string{liqocorev1beta1.RemoteClusterIDLabel: string(p.Provider)}
	return &offloadingv1beta1.VirtualNode{
		TypeMeta:   metav1.TypeMeta{APIVersion: offloadingv1beta1.GroupVersion.String(), Kind: "VirtualNode"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: p.ConsumerTenant(), Labels: labels},
		Spec: offloadingv1beta1.VirtualNodeSpec{
			ClusterID:           p.Provider,
			CreateNode:          ptr.To(true),
			DisableNetworkCheck: ptr.To(true),
			KubeconfigSecretRef: &corev1.LocalObjectReference{Name: SliceSecretName(name)},
			Labels:              labels,
			ResourceQuota:       corev1.ResourceQuotaSpec{Hard: capacity},
		},
	}
}
