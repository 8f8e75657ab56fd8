// Package forge builds the objects of a peering. It is pure.
package forge

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/remotecluster"
)

const (
	// ControlPlaneGroup is the organization of control-plane identities (wire P2.5).
	ControlPlaneGroup = "liqo.io"

	controlPlaneRole = "liqo-remote-controlplane"
	clusterWideRole  = "liqo-virtual-kubelet-remote-clusterwide"
	contextName      = "default-context"
	shortHash        = 12
)

// Pair names the two clusters of a peering.
type Pair struct {
	Consumer, Provider string
}

// ConsumerTenant returns the name of the tenant namespace in the consumer.
func (p Pair) ConsumerTenant() string { return liqocorev1beta1.TenantNamespacePrefix + p.Provider }

// ProviderTenant returns the name of the tenant namespace in the provider.
func (p Pair) ProviderTenant() string { return liqocorev1beta1.TenantNamespacePrefix + p.Consumer }

// Subject is the subject of a client certificate.
type Subject struct {
	CommonName   string
	Organization string
}

// ControlPlane returns the subject of the replicator (wire P2.5).
func (p Pair) ControlPlane() Subject {
	return Subject{CommonName: p.Consumer, Organization: ControlPlaneGroup}
}

// Slice returns the subject of virtual kubelets (wire P2.5). Its group is the consumer's cluster
// ID, the subject of role bindings in remote namespaces (T70).
func (p Pair) Slice(name string) Subject {
	sum := sha256.Sum256([]byte(p.Consumer))
	return Subject{CommonName: name + "-" + hex.EncodeToString(sum[:])[:shortHash], Organization: p.Consumer}
}

// Credential is a client certificate for the provider.
type Credential struct {
	Server           string
	CA               []byte
	Certificate, Key []byte
}

// ProviderObjects returns the objects of a manual peering in the provider (wire P2.12).
func (p Pair) ProviderObjects() []client.Object {
	labels := map[string]string{
		liqocorev1beta1.ManagedByLabel: liqocorev1beta1.ManagedByValue, liqocorev1beta1.RemoteClusterIDLabel: p.Consumer,
	}
	return []client.Object{
		tenantNamespace(p.ProviderTenant(), p.Consumer),
		&rbacv1.RoleBinding{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"},
			ObjectMeta: metav1.ObjectMeta{Name: "liqo-binding-" + controlPlaneRole, Namespace: p.ProviderTenant(), Labels: labels},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: controlPlaneRole},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: p.ControlPlane().CommonName}},
		},
		&rbacv1.ClusterRoleBinding{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
			ObjectMeta: metav1.ObjectMeta{Name: "liqo-binding-" + clusterWideRole + "-" + p.Consumer, Labels: labels},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterWideRole},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: p.Consumer}},
		},
	}
}

// ConsumerObjects returns the objects of a manual peering in the consumer (wire P2.12): the
// tenant namespace, the ForeignCluster without networking, and one kubeconfig Secret each for
// the replicator and for the virtual kubelets of a resource slice.
func (p Pair) ConsumerObjects(slice string, controlPlane, virtualKubelet Credential) ([]client.Object, error) {
	controlPlaneSecret, err := p.kubeconfigSecret("controlplane-"+p.Provider, authv1beta1.ControlPlaneIdentityType, p.ProviderTenant(), controlPlane)
	if err != nil {
		return nil, err
	}
	sliceSecret, err := p.kubeconfigSecret("resourceslice-"+slice, authv1beta1.ResourceSliceIdentityType, "", virtualKubelet)
	if err != nil {
		return nil, err
	}
	return []client.Object{
		tenantNamespace(p.ConsumerTenant(), p.Provider),
		&liqocorev1beta1.ForeignCluster{
			TypeMeta: metav1.TypeMeta{APIVersion: liqocorev1beta1.GroupVersion.String(), Kind: "ForeignCluster"},
			ObjectMeta: metav1.ObjectMeta{
				Name: p.Provider, Labels: map[string]string{liqocorev1beta1.RemoteClusterIDLabel: p.Provider},
			},
			Spec: liqocorev1beta1.ForeignClusterSpec{ClusterID: liqocorev1beta1.ClusterID(p.Provider)},
		},
		controlPlaneSecret, sliceSecret,
	}, nil
}

// SliceSecretName returns the name of the kubeconfig Secret of a slice.
func SliceSecretName(slice string) string { return "kubeconfig-resourceslice-" + slice }

// VirtualNode returns a VirtualNode on the provider with the given capacity.
func (p Pair) VirtualNode(name string, capacity corev1.ResourceList) *offloadingv1beta1.VirtualNode {
	return &offloadingv1beta1.VirtualNode{
		TypeMeta: metav1.TypeMeta{APIVersion: offloadingv1beta1.GroupVersion.String(), Kind: "VirtualNode"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: p.ConsumerTenant(), Labels: map[string]string{liqocorev1beta1.RemoteClusterIDLabel: p.Provider},
		},
		Spec: offloadingv1beta1.VirtualNodeSpec{
			ClusterID:           liqocorev1beta1.ClusterID(p.Provider),
			CreateNode:          ptr.To(true),
			DisableNetworkCheck: ptr.To(true),
			KubeconfigSecretRef: &corev1.LocalObjectReference{Name: SliceSecretName(name)},
			Labels:              map[string]string{liqocorev1beta1.RemoteClusterIDLabel: p.Provider},
			ResourceQuota:       corev1.ResourceQuotaSpec{Hard: capacity},
		},
	}
}

func tenantNamespace(name, peer string) *corev1.Namespace {
	return &corev1.Namespace{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			liqocorev1beta1.RemoteClusterIDLabel: peer, liqocorev1beta1.TenantNamespaceLabel: "true",
		}},
	}
}

// kubeconfigSecret builds a Secret as wire P2.7 describes it.
func (p Pair) kubeconfigSecret(identity string, kind authv1beta1.IdentityType, namespace string, c Credential) (*corev1.Secret, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters[p.Provider] = &clientcmdapi.Cluster{Server: c.Server, CertificateAuthorityData: c.CA}
	config.AuthInfos[identity] = &clientcmdapi.AuthInfo{ClientCertificateData: c.Certificate, ClientKeyData: c.Key}
	config.Contexts[contextName] = &clientcmdapi.Context{Cluster: p.Provider, AuthInfo: identity, Namespace: namespace}
	config.CurrentContext = contextName
	encoded, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("encoding the kubeconfig of identity %q: %w", identity, err)
	}
	secret := &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "kubeconfig-" + identity, Namespace: p.ConsumerTenant(),
			Labels: map[string]string{
				liqocorev1beta1.RemoteClusterIDLabel: p.Provider, authv1beta1.IdentityTypeLabel: string(kind),
			},
		},
		Data: map[string][]byte{remotecluster.KubeconfigKey: encoded},
	}
	if namespace != "" {
		secret.Annotations = map[string]string{authv1beta1.RemoteTenantNamespaceAnnotation: namespace}
	}
	return secret, nil
}
