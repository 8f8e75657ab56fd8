package tenant

import (
	"crypto"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// handshake is a complete one, which each case breaks.
type handshake struct {
	t      *testing.T
	key    crypto.Signer
	nonce  []byte
	tenant *authv1beta1.Tenant
}

func newHandshake(t *testing.T) *handshake {
	t.Helper()
	key, err := authentication.NewKey()
	require.NoError(t, err)
	h := &handshake{t: t, key: key, nonce: authentication.NewNonce()}
	public, err := authentication.EncodePublicKey(key.Public())
	require.NoError(t, err)
	h.tenant = authentication.Tenant("liqo-tenant-rome", "rome", public, h.csr(authentication.ControlPlaneSubject("rome")), h.sign(h.nonce), "")
	return h
}

func (h *handshake) csr(subject authentication.Subject) []byte {
	h.t.Helper()
	csr, err := authentication.NewCSR(h.key, subject)
	require.NoError(h.t, err)
	return csr
}

func (h *handshake) sign(nonce []byte) []byte {
	h.t.Helper()
	signature, err := authentication.Sign(h.key, nonce)
	require.NoError(h.t, err)
	return signature
}

func TestHandshakesThatAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*handshake, *corev1.Secret)
		reason string
	}{
		"complete":                    {func(*handshake, *corev1.Secret) {}, ""},
		"the nonce is not made yet":   {func(_ *handshake, s *corev1.Secret) { s.Data = nil }, reasonNoNonce},
		"no public key":               {func(h *handshake, _ *corev1.Secret) { h.tenant.Spec.PublicKey = nil }, reasonInvalidKey},
		"no signature":                {func(h *handshake, _ *corev1.Secret) { h.tenant.Spec.Signature = nil }, reasonInvalidSignature},
		"signature of an older nonce": {func(_ *handshake, s *corev1.Secret) { s.Data["nonce"] = authentication.NewNonce() }, reasonInvalidSignature},
		"public key of another cluster": {func(h *handshake, _ *corev1.Secret) {
			h.tenant.Spec.PublicKey = newHandshake(h.t).tenant.Spec.PublicKey
		}, reasonInvalidSignature},
		"no certificate request": {func(h *handshake, _ *corev1.Secret) { h.tenant.Spec.CSR = nil }, reasonInvalidRequest},
		"certificate request of another cluster": {func(h *handshake, _ *corev1.Secret) {
			h.tenant.Spec.CSR = h.csr(authentication.ControlPlaneSubject("oslo"))
		}, reasonInvalidRequest},
		"certificate request of an administrator": {func(h *handshake, _ *corev1.Secret) {
			h.tenant.Spec.CSR = h.csr(authentication.Subject{User: "rome", Group: "system:masters"})
		}, reasonInvalidRequest},
		"certificate request for another key": {func(h *handshake, _ *corev1.Secret) {
			h.tenant.Spec.CSR = newHandshake(h.t).tenant.Spec.CSR
		}, reasonInvalidRequest},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHandshake(t)
			secret := authentication.NonceSecret("liqo-tenant-rome", "rome")
			secret.Data = map[string][]byte{"nonce": h.nonce}
			tc.change(h, secret)
			refused := verify(h.tenant, secret)
			if tc.reason == "" {
				assert.Nil(t, refused)
				return
			}
			require.NotNil(t, refused)
			assert.Equal(t, tc.reason, refused.reason)
			assert.NotEmpty(t, refused.message)
		})
	}
	assert.Equal(t, reasonNoNonce, verify(newHandshake(t).tenant, nil).reason)
}
