// Package servingcert keeps a self-signed serving certificate in a Secret, and its CA bundle in
// webhook configurations.
package servingcert

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Keys of the Secret.
const (
	KeyCA   = "ca.crt"
	KeyCert = corev1.TLSCertKey
	KeyKey  = corev1.TLSPrivateKeyKey
)

const (
	lifetime = 365 * 24 * time.Hour
	backdate = time.Hour
	// checkEvery is the interval between checks of the certificate and the configurations.
	checkEvery = 10 * time.Minute
	retryEvery = 2 * time.Second
)

// Keeper keeps one certificate. Several replicas share it through the Secret.
type Keeper struct {
	// Client reads without a cache: there is one Secret, and it is rarely read.
	Client client.Client
	// Secret is the name of the Secret, DNSNames are those of the certificate.
	Secret   client.ObjectKey
	DNSNames []string
	// Mutating and Validating are the names of the configurations.
	Mutating, Validating []string
	// Changes receives a value when a configuration may have changed. It may be nil.
	Changes <-chan struct{}
	// External says that another controller issues and renews the certificate: the Keeper reads it.
	External bool
	// Clock is the time source.
	Clock clock.WithTicker
	// OnError is called after a failed check, which is retried after a short time.
	OnError func(error)

	current atomic.Pointer[tls.Certificate]
}

// GetCertificate returns the current certificate. It is a tls.Config's GetCertificate.
func (k *Keeper) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if cert := k.current.Load(); cert != nil {
		return cert, nil
	}
	return nil, errors.New("the serving certificate is not ready yet")
}

// Ready reports whether there is a certificate to serve.
func (k *Keeper) Ready() bool { return k.current.Load() != nil }

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica serves.
func (k *Keeper) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable: it calls Ensure until the context ends.
func (k *Keeper) Start(ctx context.Context) error {
	for {
		wait := checkEvery
		if err := k.Ensure(ctx); err != nil && ctx.Err() == nil {
			k.OnError(err)
			wait = retryEvery
		}
		select {
		case <-ctx.Done():
			return nil
		case <-k.Changes:
		case <-k.Clock.After(wait):
		}
	}
}

// Ensure creates or renews the certificate and writes the CA bundle into the configurations. A
// new certificate is served after its CA was written. The bundle also has the previous CA,
// because another replica serves the old certificate until its next check.
func (k *Keeper) Ensure(ctx context.Context) error {
	secret := &corev1.Secret{}
	err := k.Client.Get(ctx, k.Secret, secret)
	switch {
	case apierrors.IsNotFound(err) && k.External:
		return fmt.Errorf("waiting for Secret %s: another controller must write the serving certificate", k.Secret)
	case apierrors.IsNotFound(err):
		if secret, err = k.create(ctx); err != nil {
			return err
		}
	case err != nil:
		return fmt.Errorf("reading Secret %s: %w", k.Secret, err)
	}
	cert, err := k.parse(secret)
	if err != nil && k.External {
		return fmt.Errorf("another controller must renew the serving certificate: %w", err)
	}
	if err != nil {
		if secret, err = k.renew(ctx, secret); err != nil {
			return err
		}
		if cert, err = k.parse(secret); err != nil {
			return fmt.Errorf("reading the new certificate: %w", err)
		}
	}
	if err := k.writeBundles(ctx, secret.Data[KeyCA]); err != nil {
		// The process must become ready even if a configuration does not exist yet.
		k.current.CompareAndSwap(nil, cert)
		return err
	}
	k.current.Store(cert)
	return nil
}

func (k *Keeper) create(ctx context.Context) (*corev1.Secret, error) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: k.Secret.Name, Namespace: k.Secret.Namespace}, Type: corev1.SecretTypeTLS}
	if err := k.issue(secret); err != nil {
		return nil, err
	}
	err := k.Client.Create(ctx, secret)
	if apierrors.IsAlreadyExists(err) {
		// Another replica created it.
		secret = &corev1.Secret{}
		err = k.Client.Get(ctx, k.Secret, secret)
	}
	if err != nil {
		return nil, fmt.Errorf("storing the certificate in Secret %s: %w", k.Secret, err)
	}
	return secret, nil
}

func (k *Keeper) renew(ctx context.Context, secret *corev1.Secret) (*corev1.Secret, error) {
	if err := k.issue(secret); err != nil {
		return nil, err
	}
	if err := k.Client.Update(ctx, secret); err != nil {
		return nil, fmt.Errorf("renewing the certificate in Secret %s: %w", k.Secret, err)
	}
	return secret, nil
}

// parse returns an error for a certificate that is invalid, for other names, not signed by the
// CA of the Secret, or, if the Keeper issues it, in the last third of its lifetime.
func (k *Keeper) parse(secret *corev1.Secret) (*tls.Certificate, error) {
	cert, err := tls.X509KeyPair(secret.Data[KeyCert], secret.Data[KeyKey])
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of Secret %s: %w", k.Secret, err)
	}
	leaf := cert.Leaf
	authorities, err := parseBundle(secret.Data[KeyCA])
	if err != nil {
		return nil, fmt.Errorf("reading %s of Secret %s: %w", KeyCA, k.Secret, err)
	}
	roots := x509.NewCertPool()
	for _, authority := range authorities {
		roots.AddCert(authority)
	}
	if renewAt := leaf.NotAfter.Add(-leaf.NotAfter.Sub(leaf.NotBefore) / 3); !k.External && k.Clock.Now().After(renewAt) {
		return nil, fmt.Errorf("the certificate of Secret %s expires at %s", k.Secret, leaf.NotAfter)
	}
	for _, name := range k.DNSNames {
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: k.Clock.Now()}); err != nil {
			return nil, fmt.Errorf("the certificate of Secret %s: %w", k.Secret, err)
		}
	}
	return &cert, nil
}

// parseBundle parses the certificates of a bundle, at least one.
func parseBundle(bundle []byte) ([]*x509.Certificate, error) {
	var authorities []*x509.Certificate
	for rest := bundle; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		authority, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("reading a certificate: %w", err)
		}
		authorities = append(authorities, authority)
	}
	if len(authorities) == 0 {
		return nil, errors.New("no certificate found")
	}
	return authorities, nil
}

// previousCA returns the newest CA of a bundle that the next bundle does not have, as PEM. It
// returns nil if there is none, or if it is invalid or expired.
func previousCA(bundle, next []byte, now time.Time) []byte {
	authorities, err := parseBundle(bundle)
	if err != nil {
		return nil
	}
	// A bundle that cannot be read has no CA.
	kept, _ := parseBundle(next)
	for _, authority := range authorities {
		if slices.ContainsFunc(kept, authority.Equal) {
			continue
		}
		if now.After(authority.NotAfter) {
			return nil
		}
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Raw})
	}
	return nil
}

// issue writes a new CA and a new certificate to the Secret. The private key of the CA is
// discarded. The bundle has the new CA first, then the previous one.
func (k *Keeper) issue(secret *corev1.Secret) error {
	now := k.Clock.Now()
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("generating the key of the CA: %w", err)
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: k.DNSNames[0] + "-ca"},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(lifetime), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		return fmt.Errorf("signing the CA: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("generating the serving key: %w", err)
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano() + 1), Subject: pkix.Name{CommonName: k.DNSNames[0]}, DNSNames: k.DNSNames,
		NotBefore: now.Add(-backdate), NotAfter: now.Add(lifetime),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	if err != nil {
		return fmt.Errorf("signing the serving certificate: %w", err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("encoding the serving key: %w", err)
	}
	secret.Data = map[string][]byte{
		KeyCA:   append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER}), previousCA(secret.Data[KeyCA], nil, now)...),
		KeyCert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leafDER}),
		KeyKey:  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}),
	}
	return nil
}

func (k *Keeper) writeBundles(ctx context.Context, bundle []byte) error {
	var errs []error
	for _, name := range k.Mutating {
		config := &admissionregistrationv1.MutatingWebhookConfiguration{}
		errs = append(errs, k.writeBundle(ctx, name, config, func() (changed bool) {
			for i := range config.Webhooks {
				changed = k.setBundle(&config.Webhooks[i].ClientConfig, bundle) || changed
			}
			return changed
		}))
	}
	for _, name := range k.Validating {
		config := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		errs = append(errs, k.writeBundle(ctx, name, config, func() (changed bool) {
			for i := range config.Webhooks {
				changed = k.setBundle(&config.Webhooks[i].ClientConfig, bundle) || changed
			}
			return changed
		}))
	}
	return errors.Join(errs...)
}

func (k *Keeper) setBundle(config *admissionregistrationv1.WebhookClientConfig, bundle []byte) bool {
	after := k.bundleAfter(config.CABundle, bundle)
	if bytes.Equal(config.CABundle, after) {
		return false
	}
	config.CABundle = after
	return true
}

// bundleAfter returns what replaces a configuration's bundle. The bundle of another controller may
// lack the previous CA: it is kept from the configuration.
func (k *Keeper) bundleAfter(before, bundle []byte) []byte {
	if !k.External {
		return bundle
	}
	previous := previousCA(before, bundle, k.Clock.Now())
	if previous == nil {
		return bundle
	}
	return slices.Concat(bytes.TrimSpace(bundle), []byte("\n"), previous)
}

func (k *Keeper) writeBundle(ctx context.Context, name string, config client.Object, set func() bool) error {
	if err := k.Client.Get(ctx, client.ObjectKey{Name: name}, config); err != nil {
		return fmt.Errorf("reading webhook configuration %q: %w", name, err)
	}
	before, ok := config.DeepCopyObject().(client.Object)
	if !ok || !set() {
		return nil
	}
	if err := k.Client.Patch(ctx, config, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("writing the CA bundle of webhook configuration %q: %w", name, err)
	}
	return nil
}
