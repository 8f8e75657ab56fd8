package peer

import (
	"bytes"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/cmd/longshorectl/admin"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// Pair is a consumer and its provider.
type Pair struct {
	Consumer, Provider *admin.Cluster
	// ProxyURL through which the consumer reaches the provider; empty means directly.
	ProxyURL string

	// The tenant namespaces: that of the provider in the consumer, and the reverse.
	inConsumer, inProvider string
}

// AuthenticateSteps give the consumer its credentials for the provider (wire P2.3).
func (p *Pair) AuthenticateSteps() []admin.Step {
	var nonce []byte
	return []admin.Step{
		{Title: "Tenant namespaces in both clusters", Run: func(ctx context.Context, _ admin.Waiting) (err error) {
			if p.inConsumer, err = p.Consumer.EnsureTenantNamespace(ctx, p.Provider.ID); err != nil {
				return err
			}
			p.inProvider, err = p.Provider.EnsureTenantNamespace(ctx, p.Consumer.ID)
			return err
		}},
		{Title: "Nonce of the provider", Run: func(ctx context.Context, waiting admin.Waiting) (err error) {
			nonce, err = p.nonce(ctx, waiting)
			return err
		}},
		{Title: "Signature of the consumer", Run: func(ctx context.Context, waiting admin.Waiting) error { return p.sign(ctx, nonce, waiting) }},
		{Title: "Credentials for the consumer", Run: func(ctx context.Context, waiting admin.Waiting) error { return p.credentials(ctx, nonce, waiting) }},
	}
}

func (p *Pair) nonce(ctx context.Context, waiting admin.Waiting) ([]byte, error) {
	want := authentication.NonceSecret(p.inProvider, p.Consumer.ID)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: want.Name, Namespace: want.Namespace}}
	if err := p.Provider.Write(ctx, secret, func() error {
		admin.SetLabels(secret, want)
		return nil
	}); err != nil {
		return nil, err
	}
	err := p.Provider.Until(ctx, secret, waiting, func() string {
		if len(secret.Data[authentication.NonceKey]) == 0 {
			return "Longshore's manager to write the nonce"
		}
		return ""
	})
	return secret.Data[authentication.NonceKey], err
}

// sign has the consumer's manager sign the nonce. A Secret with another nonce is of an earlier
// peering, or of a provider that was installed again.
func (p *Pair) sign(ctx context.Context, nonce []byte, waiting admin.Waiting) error {
	want := authentication.SignedNonceSecret(p.inConsumer, p.Provider.ID, nonce)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: want.Name, Namespace: want.Namespace}}
	err := p.Consumer.Write(ctx, secret, func() error {
		if !bytes.Equal(secret.Data[authentication.NonceKey], nonce) {
			secret.Data = want.Data
		}
		admin.SetLabels(secret, want)
		return nil
	})
	if err != nil {
		return err
	}
	return p.Consumer.Until(ctx, secret, waiting, func() string {
		if len(secret.Data[authentication.SignedNonceKey]) == 0 {
			return "Longshore's manager to write the signature"
		}
		return ""
	})
}

// credentials sends the Tenant to the provider, and brings the Identity back.
func (p *Pair) credentials(ctx context.Context, nonce []byte, waiting admin.Waiting) error {
	tenant, err := p.sendTenant(ctx)
	if err != nil {
		return err
	}
	// The reference sets no condition.
	err = p.Provider.Until(ctx, tenant, waiting, func() string {
		ready := meta.FindStatusCondition(tenant.Status.Conditions, authv1beta1.TenantReady)
		switch {
		case ready != nil && ready.ObservedGeneration < tenant.Generation:
			return "Longshore's manager to look at it"
		case ready != nil && ready.Status != metav1.ConditionTrue:
			return ready.Message
		case tenant.Status.AuthParams == nil || tenant.Status.TenantNamespace == "":
			return "the provider to issue the credentials"
		default:
			return ""
		}
	})
	if err != nil {
		return err
	}
	want, err := authentication.ControlPlaneIdentity(p.inConsumer, p.Provider.ID, tenant)
	if err != nil {
		return fmt.Errorf("reading the credentials of the provider: %w", err)
	}
	identity := &authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Name: want.Name, Namespace: want.Namespace}}
	if err := p.Consumer.Write(ctx, identity, func() error {
		identity.Spec = want.Spec
		admin.SetLabels(identity, want)
		return nil
	}); err != nil {
		return err
	}
	return p.Consumer.Until(ctx, identity, waiting, func() string {
		if identity.Status.KubeconfigSecretRef == nil {
			return "Longshore's manager to make the kubeconfig"
		}
		return ""
	})
}

// sendTenant writes the consumer's Tenant in the provider. What the provider's administrator
// set in it stays (A5), and so does a certificate request that is still right (A2).
func (p *Pair) sendTenant(ctx context.Context) (*authv1beta1.Tenant, error) {
	keys, signed := &corev1.Secret{}, &corev1.Secret{}
	if err := p.Consumer.Get(ctx, client.ObjectKey{Namespace: p.Consumer.Namespace, Name: authentication.KeysSecretName}, keys); err != nil {
		return nil, fmt.Errorf("reading the key pair of the consumer: %w", err)
	}
	if err := p.Consumer.Get(ctx, client.ObjectKey{Namespace: p.inConsumer, Name: authentication.SignedNonceSecretName}, signed); err != nil {
		return nil, fmt.Errorf("reading the signature of the consumer: %w", err)
	}
	key, err := authentication.ParseKey(keys.Data[authentication.PrivateKeyKey])
	if err != nil {
		return nil, fmt.Errorf("reading the key pair of the consumer: %w", err)
	}
	subject := authentication.ControlPlaneSubject(p.Consumer.ID)
	csr, err := authentication.NewCSR(key, subject)
	if err != nil {
		return nil, err
	}
	want := authentication.Tenant(p.inProvider, p.Consumer.ID, keys.Data[authentication.PublicKeyKey], csr, signed.Data[authentication.SignedNonceKey], p.ProxyURL)
	tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: want.Name, Namespace: want.Namespace}}
	err = p.Provider.Write(ctx, tenant, func() error {
		spec := want.Spec
		spec.TenantCondition, spec.AuthzPolicy = tenant.Spec.TenantCondition, tenant.Spec.AuthzPolicy
		if authentication.MatchCSR(tenant.Spec.CSR, subject, key.Public()) {
			spec.CSR = tenant.Spec.CSR
		}
		tenant.Spec = spec
		admin.SetLabels(tenant, want)
		return nil
	})
	return tenant, err
}
