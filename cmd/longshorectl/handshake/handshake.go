// Package handshake is how a consumer gets its credentials from a provider: the
// parts that each side does, and the commands for administrators who reach one side only and
// carry what the other side needs by hand.
package handshake

import (
	"bytes"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/cmd/longshorectl/admin"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// MakeNonce has the provider's manager make a nonce for a consumer, or returns the one that
// exists.
func MakeNonce(ctx context.Context, provider *admin.Cluster, namespace string, consumer liqocorev1beta1.ClusterID, waiting admin.Waiting) ([]byte, error) {
	want := authentication.NonceSecret(namespace, consumer)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: want.Name, Namespace: want.Namespace}}
	if err := provider.Write(ctx, secret, func() error {
		admin.SetLabels(secret, want)
		return nil
	}); err != nil {
		return nil, err
	}
	err := provider.Until(ctx, secret, waiting, func() string {
		if len(secret.Data[authentication.NonceKey]) == 0 {
			return "Longshore's manager to write the nonce"
		}
		return ""
	})
	return secret.Data[authentication.NonceKey], err
}

// SignNonce has the consumer's manager sign the nonce. A Secret with another nonce is of an
// earlier peering, or of a provider that was installed again. A signature of another key is of
// before the consumer's key was replaced, and is made again.
func SignNonce(ctx context.Context, consumer *admin.Cluster, namespace string, provider liqocorev1beta1.ClusterID, nonce []byte, waiting admin.Waiting) error {
	want := authentication.SignedNonceSecret(namespace, provider, nonce)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: want.Name, Namespace: want.Namespace}}
	err := consumer.Write(ctx, secret, func() error {
		if !bytes.Equal(secret.Data[authentication.NonceKey], nonce) || !isSigned(ctx, consumer, secret) {
			secret.Data = want.Data
		}
		admin.SetLabels(secret, want)
		return nil
	})
	if err != nil {
		return err
	}
	return consumer.Until(ctx, secret, waiting, func() string {
		if !isSigned(ctx, consumer, secret) {
			return "Longshore's manager to write the signature"
		}
		return ""
	})
}

// isSigned reports whether a Secret has the signature of its nonce by the consumer's key.
func isSigned(ctx context.Context, consumer *admin.Cluster, secret *corev1.Secret) bool {
	keys := &corev1.Secret{}
	if err := consumer.Get(ctx, client.ObjectKey{Namespace: consumer.Namespace, Name: authentication.KeysSecretName}, keys); err != nil {
		return false // The manager makes the key when it signs.
	}
	public, err := authentication.ParsePublicKey(keys.Data[authentication.PublicKeyKey])
	return err == nil && authentication.Verify(public, secret.Data[authentication.NonceKey], secret.Data[authentication.SignedNonceKey]) == nil
}

// NewTenant returns the Tenant by which the consumer introduces itself, from its key pair and
// the nonce that was signed in one of its tenant namespaces. The provider's tenant namespace is
// where the Tenant belongs.
func NewTenant(ctx context.Context, consumer *admin.Cluster, namespace, inProvider, proxyURL string) (*authv1beta1.Tenant, error) {
	keys, signed := &corev1.Secret{}, &corev1.Secret{}
	if err := consumer.Get(ctx, client.ObjectKey{Namespace: consumer.Namespace, Name: authentication.KeysSecretName}, keys); err != nil {
		return nil, fmt.Errorf("reading the key pair of the consumer: %w", err)
	}
	if err := consumer.Get(ctx, client.ObjectKey{Namespace: namespace, Name: authentication.SignedNonceSecretName}, signed); err != nil {
		return nil, fmt.Errorf("reading the signature of the consumer: %w", err)
	}
	key, err := authentication.ParseKey(keys.Data[authentication.PrivateKeyKey])
	if err != nil {
		return nil, fmt.Errorf("reading the key pair of the consumer: %w", err)
	}
	csr, err := authentication.NewCSR(key, authentication.ControlPlaneSubject(consumer.ID))
	if err != nil {
		return nil, fmt.Errorf("introducing the consumer: %w", err)
	}
	return authentication.Tenant(inProvider, consumer.ID, keys.Data[authentication.PublicKeyKey], csr, signed.Data[authentication.SignedNonceKey], proxyURL), nil
}

// SendTenant writes the consumer's Tenant in the provider. What the provider's administrator
// set in it stays, and so does a certificate request that is still right.
func SendTenant(ctx context.Context, provider *admin.Cluster, want *authv1beta1.Tenant) (*authv1beta1.Tenant, error) {
	key, err := authentication.ParsePublicKey(want.Spec.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("reading the public key of the consumer: %w", err)
	}
	tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: want.Name, Namespace: want.Namespace}}
	err = provider.Write(ctx, tenant, func() error {
		spec := want.Spec
		spec.TenantCondition, spec.AuthzPolicy = tenant.Spec.TenantCondition, tenant.Spec.AuthzPolicy
		if authentication.CheckCSR(tenant.Spec.CSR, authentication.ControlPlaneSubject(want.Spec.ClusterID), key) == nil {
			spec.CSR = tenant.Spec.CSR
		}
		tenant.Spec = spec
		admin.SetLabels(tenant, want)
		return nil
	})
	return tenant, err
}

// WaitAccepted waits until the provider issued the credentials of a Tenant.
func WaitAccepted(ctx context.Context, provider *admin.Cluster, tenant *authv1beta1.Tenant, waiting admin.Waiting) error {
	return provider.Until(ctx, tenant, waiting, func() string { return undecided(tenant) })
}

// undecided returns why a Tenant has no credentials yet, or "". The reference sets no condition.
func undecided(tenant *authv1beta1.Tenant) string {
	ready := meta.FindStatusCondition(tenant.Status.Conditions, authv1beta1.TenantReady)
	switch {
	case tenant.Spec.TenantCondition == authv1beta1.TenantConditionDrained:
		return "the provider's administrator to run longshorectl activate tenant " + tenant.Name + ": it is drained"
	case ready != nil && ready.ObservedGeneration < tenant.Generation:
		return "Longshore's manager to look at it"
	case ready != nil && ready.Status != metav1.ConditionTrue:
		return ready.Message
	case ptr.Deref(tenant.Spec.AuthzPolicy, authv1beta1.KeysExchange) == authv1beta1.TolerateNoHandshake:
		return "its authzPolicy to be KeysExchange: with TolerateNoHandshake the provider issues no credentials"
	case tenant.Status.AuthParams == nil || tenant.Status.TenantNamespace == "":
		return "the provider to issue the credentials"
	default:
		return ""
	}
}

// KeepIdentity writes the consumer's Identity and waits until its kubeconfig is made.
func KeepIdentity(ctx context.Context, consumer *admin.Cluster, want *authv1beta1.Identity, waiting admin.Waiting) error {
	identity := &authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Name: want.Name, Namespace: want.Namespace}}
	if err := consumer.Write(ctx, identity, func() error {
		identity.Spec = want.Spec
		admin.SetLabels(identity, want)
		return nil
	}); err != nil {
		return err
	}
	return consumer.Until(ctx, identity, waiting, func() string {
		if identity.Status.KubeconfigSecretRef == nil {
			return "Longshore's manager to make the kubeconfig"
		}
		return ""
	})
}
