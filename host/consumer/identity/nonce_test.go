package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// TestTextsThatAreNotSigned holds S7 of the wire: the key that signs nonces is that of the client
// certificates, so a signature must be of no use elsewhere. A signature that exists stays, since
// those of ECDSA differ each time.
func TestTextsThatAreNotSigned(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	private, _, err := authentication.EncodeKey(crypto.Signer(key))
	require.NoError(t, err)
	base64Of := func(length int) []byte { return []byte(base64.StdEncoding.EncodeToString(make([]byte, length))) }
	for name, tc := range map[string]struct {
		text      []byte
		namespace string
		signed    bool
	}{
		"a nonce":                          {authentication.NewNonce(), "liqo-tenant-milan", true},
		"a short text":                     {base64Of(31), "liqo-tenant-milan", false},
		"a long text":                      {base64Of(129), "liqo-tenant-milan", false},
		"a text of another protocol":       {[]byte("TLS 1.3, client CertificateVerify, and a transcript of 32 bytes"), "liqo-tenant-milan", false},
		"a nonce of another provider":      {authentication.NewNonce(), "liqo-tenant-turin", false},
		"a nonce outside of its namespace": {authentication.NewNonce(), "default", false},
	} {
		t.Run(name, func(t *testing.T) {
			keys := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: authentication.KeysSecretName, Namespace: "longshore"}, Data: map[string][]byte{"privateKey": private}}
			secret := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: "liqo-signed-nonce", Namespace: tc.namespace, Labels: map[string]string{
					authentication.SignedNonceLabel: "true", liqocorev1beta1.RemoteClusterIDLabel: "milan",
				}},
				Data: map[string][]byte{authentication.NonceKey: tc.text},
			}
			c := fakeclient.Builder(
				keys, secret, authentication.TenantNamespace("milan"), authentication.TenantNamespace("turin"),
				&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}},
			).Build()
			signer := &NonceSigner{Client: c, Events: events.NewFakeRecorder(10), Keys: &Keys{Client: c, APIReader: c, Namespace: "longshore"}}
			reconcile := func() []byte {
				require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(secret), secret))
				_, err := signer.Reconcile(t.Context(), secret)
				require.NoError(t, err)
				require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(secret), secret))
				return secret.Data[authentication.SignedNonceKey]
			}
			first := reconcile()
			assert.Equal(t, tc.signed, len(first) > 0)
			if tc.signed {
				require.NoError(t, authentication.Verify(key.Public(), tc.text, first))
			}
			assert.Equal(t, first, reconcile())
		})
	}
}
