package authentication

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
)

// Secrets of the handshake.
const (
	// KeysSecretName is the Secret with the cluster's key pair, in Longshore's own namespace.
	KeysSecretName = "authentication-keys"
	// PrivateKeyKey and PublicKeyKey are its keys, both PEM.
	PrivateKeyKey = "privateKey"
	PublicKeyKey  = "publicKey"

	// NonceSecretName is the Secret with the provider's nonce, in the tenant namespace.
	NonceSecretName = "liqo-nonce"
	// NonceLabel is "true" on it.
	NonceLabel = "liqo.io/nonce"
	// SignedNonceSecretName is the Secret with the consumer's signature.
	SignedNonceSecretName = "liqo-signed-nonce"
	// SignedNonceLabel is "true" on it.
	SignedNonceLabel = "liqo.io/signed-nonce"
	// NonceKey and SignedNonceKey are the keys of both.
	NonceKey       = "nonce"
	SignedNonceKey = "signedNonce"

	controlPlaneIdentityPrefix = "controlplane-"
	sliceIdentityPrefix        = "resourceslice-"
	kubeconfigSecretPrefix     = "kubeconfig-"
	kubeconfigContext          = "default-context"
)

// TenantNamespace returns the namespace kept for a peer, under its default name.
// It does not ask for the Pod Security level privileged: no pods of the peer run there (S14).
func TenantNamespace(peer liqocorev1beta1.ClusterID) *corev1.Namespace {
	return &corev1.Namespace{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{
			Name: liqocorev1beta1.TenantNamespacePrefix + string(peer),
			Labels: map[string]string{
				liqocorev1beta1.RemoteClusterIDLabel: string(peer), liqocorev1beta1.TenantNamespaceLabel: "true",
			},
		},
	}
}

// NonceSecret returns the empty Secret in which the provider's manager makes a nonce for a
// consumer.
func NonceSecret(namespace string, consumer liqocorev1beta1.ClusterID) *corev1.Secret {
	return handshakeSecret(namespace, NonceSecretName, NonceLabel, consumer)
}

// SignedNonceSecret returns the Secret in which the consumer's manager signs a provider's
// nonce.
func SignedNonceSecret(namespace string, provider liqocorev1beta1.ClusterID, nonce []byte) *corev1.Secret {
	secret := handshakeSecret(namespace, SignedNonceSecretName, SignedNonceLabel, provider)
	secret.Data = map[string][]byte{NonceKey: nonce}
	return secret
}

func handshakeSecret(namespace, name, label string, peer liqocorev1beta1.ClusterID) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{
			label: "true", liqocorev1beta1.RemoteClusterIDLabel: string(peer),
		}},
	}
}

// Tenant returns the object by which a consumer introduces itself to a provider.
// The namespace may be empty; the administrator chooses it then.
func Tenant(namespace string, consumer liqocorev1beta1.ClusterID, publicKey, csr, signature []byte, proxyURL string) *authv1beta1.Tenant {
	tenant := &authv1beta1.Tenant{
		TypeMeta: metav1.TypeMeta{APIVersion: authv1beta1.GroupVersion.String(), Kind: "Tenant"},
		ObjectMeta: metav1.ObjectMeta{
			Name: string(consumer), Namespace: namespace, Labels: map[string]string{liqocorev1beta1.RemoteClusterIDLabel: string(consumer)},
		},
		Spec: authv1beta1.TenantSpec{ClusterID: consumer, PublicKey: publicKey, CSR: csr, Signature: signature},
	}
	if proxyURL != "" {
		tenant.Spec.ProxyURL = ptr.To(proxyURL)
	}
	return tenant
}

// ControlPlaneIdentityName is the name of a consumer's Identity for a provider.
func ControlPlaneIdentityName(provider liqocorev1beta1.ClusterID) string {
	return controlPlaneIdentityPrefix + string(provider)
}

// ControlPlaneIdentity returns the Identity that a provider gives to a consumer, from the
// status of its Tenant. It is an error when the status is not complete.
func ControlPlaneIdentity(namespace string, provider liqocorev1beta1.ClusterID, tenant *authv1beta1.Tenant) (*authv1beta1.Identity, error) {
	if tenant.Status.AuthParams == nil || tenant.Status.TenantNamespace == "" {
		return nil, fmt.Errorf("tenant %q has no credentials in its status yet", tenant.Name)
	}
	identity := newIdentity(namespace, ControlPlaneIdentityName(provider), provider, authv1beta1.ControlPlaneIdentityType, *tenant.Status.AuthParams)
	identity.Spec.Namespace = ptr.To(tenant.Status.TenantNamespace)
	return identity, nil
}

// SliceIdentity returns the Identity of a consumer's ResourceSlice, from its status,
// or nil without credentials.
func SliceIdentity(slice *authv1beta1.ResourceSlice) *authv1beta1.Identity {
	if slice.Status.AuthParams == nil || slice.Spec.ProviderClusterID == nil {
		return nil
	}
	identity := newIdentity(slice.Namespace, SliceIdentityName(slice.Name), *slice.Spec.ProviderClusterID,
		authv1beta1.ResourceSliceIdentityType, *slice.Status.AuthParams)
	identity.Labels[authv1beta1.ResourceSliceNameLabel] = slice.Name
	return identity
}

// SliceIdentityName is the name of the Identity of a ResourceSlice.
func SliceIdentityName(slice string) string { return sliceIdentityPrefix + slice }

func newIdentity(namespace, name string, provider liqocorev1beta1.ClusterID, kind authv1beta1.IdentityType, params authv1beta1.AuthParams) *authv1beta1.Identity {
	return &authv1beta1.Identity{
		TypeMeta: metav1.TypeMeta{APIVersion: authv1beta1.GroupVersion.String(), Kind: "Identity"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: namespace, Labels: map[string]string{liqocorev1beta1.RemoteClusterIDLabel: string(provider)},
		},
		Spec: authv1beta1.IdentitySpec{ClusterID: provider, Type: kind, AuthParams: params},
	}
}

// KubeconfigSecretName is the name of the Secret made of an Identity.
func KubeconfigSecretName(identity string) string { return kubeconfigSecretPrefix + identity }

// KubeconfigSecret returns the Secret with the kubeconfig of an Identity and the cluster's
// PEM private key.
func KubeconfigSecret(identity *authv1beta1.Identity, privateKey []byte) (*corev1.Secret, error) {
	provider, params := string(identity.Spec.ClusterID), identity.Spec.AuthParams
	namespace := ""
	if identity.Spec.Type == authv1beta1.ControlPlaneIdentityType {
		namespace = ptr.Deref(identity.Spec.Namespace, "")
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[provider] = &clientcmdapi.Cluster{
		Server: params.APIServer, CertificateAuthorityData: params.CA, ProxyURL: ptr.Deref(params.ProxyURL, ""),
	}
	config.AuthInfos[identity.Name] = &clientcmdapi.AuthInfo{ClientCertificateData: params.SignedCRT, ClientKeyData: privateKey}
	config.Contexts[kubeconfigContext] = &clientcmdapi.Context{Cluster: provider, AuthInfo: identity.Name, Namespace: namespace}
	config.CurrentContext = kubeconfigContext
	encoded, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("encoding the kubeconfig of identity %q: %w", identity.Name, err)
	}
	secret := &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Name: KubeconfigSecretName(identity.Name), Namespace: identity.Namespace,
			Labels: map[string]string{
				liqocorev1beta1.RemoteClusterIDLabel: provider, authv1beta1.IdentityTypeLabel: string(identity.Spec.Type),
			},
		},
		Data: map[string][]byte{authv1beta1.KubeconfigSecretKey: encoded},
	}
	if namespace != "" {
		secret.Annotations = map[string]string{authv1beta1.RemoteTenantNamespaceAnnotation: namespace}
	}
	return secret, nil
}

// KubeconfigKey returns the PEM private key in the kubeconfig of a Secret, or nil.
func KubeconfigKey(secret *corev1.Secret) []byte {
	config, err := clientcmd.Load(secret.Data[authv1beta1.KubeconfigSecretKey])
	if err != nil {
		return nil
	}
	current := config.Contexts[config.CurrentContext]
	if current == nil || config.AuthInfos[current.AuthInfo] == nil {
		return nil
	}
	return config.AuthInfos[current.AuthInfo].ClientKeyData
}

// Renew returns the object through which a provider brings fresh control-plane credentials to
// the consumer of an Identity.
func Renew(identity *authv1beta1.Identity, consumer liqocorev1beta1.ClusterID) *authv1beta1.Renew {
	provider := string(identity.Spec.ClusterID)
	return &authv1beta1.Renew{
		TypeMeta: metav1.TypeMeta{APIVersion: authv1beta1.GroupVersion.String(), Kind: "Renew"},
		ObjectMeta: metav1.ObjectMeta{
			Name: identity.Name, Namespace: identity.Namespace, Labels: ReplicationLabels(liqocorev1beta1.ClusterID(provider)),
		},
		Spec: authv1beta1.RenewSpec{ConsumerClusterID: consumer, IdentityType: authv1beta1.ControlPlaneIdentityType},
	}
}

// ResourceSlice returns a consumer's request for resources of a provider.
func ResourceSlice(namespace, name string, provider liqocorev1beta1.ClusterID, annotations map[string]string, spec authv1beta1.ResourceSliceSpec) *authv1beta1.ResourceSlice {
	spec.ProviderClusterID = ptr.To(provider)
	return &authv1beta1.ResourceSlice{
		TypeMeta: metav1.TypeMeta{APIVersion: authv1beta1.GroupVersion.String(), Kind: "ResourceSlice"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: namespace, Labels: ReplicationLabels(provider), Annotations: maps.Clone(annotations),
		},
		Spec: spec,
	}
}

// ReplicationLabels select an object for replication to a provider.
func ReplicationLabels(provider liqocorev1beta1.ClusterID) map[string]string {
	return map[string]string{
		liqocorev1beta1.ReplicationLabel: "true", liqocorev1beta1.RemoteIDLabel: string(provider),
		liqocorev1beta1.RemoteClusterIDLabel: string(provider),
	}
}

// LabelsProblem returns which labels an own ResourceSlice lacks, without which it is not sent to the provider, and
// how they are set, as sentences for an administrator, or "". The provider is that of its namespace, or "".
func LabelsProblem(slice metav1.Object, provider liqocorev1beta1.ClusterID) string {
	have := slice.GetLabels()
	provider = cmp.Or(provider, liqocorev1beta1.ClusterID(have[liqocorev1beta1.RemoteIDLabel]), liqocorev1beta1.ClusterID(have[liqocorev1beta1.RemoteClusterIDLabel]), "PROVIDER")
	var missing []string
	for key, value := range ReplicationLabels(provider) {
		if have[key] == "" || key == liqocorev1beta1.ReplicationLabel && have[key] != value {
			missing = append(missing, key+"="+value)
		}
	}
	if len(missing) == 0 {
		return ""
	}
	slices.Sort(missing)
	return fmt.Sprintf("It is not sent to a provider, because it lacks the labels %s. Set them: kubectl label --overwrite -n %s resourceslices.authentication.liqo.io %s %s",
		strings.Join(missing, ", "), slice.GetNamespace(), slice.GetName(), strings.Join(missing, " "))
}

// IsCordonedBy reports whether an annotation cordons a ResourceSlice: it exists with a value other than
// false.
func IsCordonedBy(slice metav1.Object, annotation string) bool {
	value, ok := slice.GetAnnotations()[annotation]
	return ok && value != "false" && value != "False" && value != "0"
}

// ReadTenantNamespace returns a namespace, and why it is not the tenant namespace of a cluster, as
// [TenantNamespaceProblem] does.
func ReadTenantNamespace(ctx context.Context, reader client.Reader, name string, peer liqocorev1beta1.ClusterID) (namespace *corev1.Namespace, problem string, err error) {
	namespace = &corev1.Namespace{}
	if err := reader.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return nil, "", fmt.Errorf("reading namespace %q: %w", name, err)
	}
	return namespace, TenantNamespaceProblem(namespace, peer), nil
}

// TenantNamespaceProblem returns why a namespace is not the tenant namespace of a cluster, as
// a sentence for an administrator, or "".
func TenantNamespaceProblem(namespace *corev1.Namespace, peer liqocorev1beta1.ClusterID) string {
	if err := peer.Validate(); err != nil {
		return fmt.Sprintf("The label %s is not a cluster ID: %s.", liqocorev1beta1.RemoteClusterIDLabel, err)
	}
	if !liqocorev1beta1.IsTenantNamespace(namespace, peer) {
		return fmt.Sprintf("Namespace %s is not the tenant namespace of cluster %s. Use the namespace with the labels %s=true and %s=%s.",
			namespace.Name, peer, liqocorev1beta1.TenantNamespaceLabel, liqocorev1beta1.RemoteClusterIDLabel, peer)
	}
	return ""
}
