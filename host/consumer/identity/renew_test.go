package identity

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// certificateUntil returns a certificate that ends in a year.
func certificateUntil(t *testing.T, key crypto.Signer, year int) []byte {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(int64(year)), NotAfter: time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// TestARenewIsAppliedOnce changes, one after the other, the credentials in the Renew, which the
// provider writes, and those in the Identity, which longshorectl or an administrator writes.
func TestARenewIsAppliedOnce(t *testing.T) {
	key, private := newKey(t)
	first, second := certificateUntil(t, key, 2027), certificateUntil(t, key, 2028)
	at := func(certificate []byte, server string) authv1beta1.AuthParams {
		return authv1beta1.AuthParams{SignedCRT: certificate, APIServer: "https://" + server}
	}
	type step struct {
		// renew and identity are what is written; nil for what stays.
		renew, identity *authv1beta1.AuthParams
		want            authv1beta1.AuthParams
	}
	renew := func(p, want authv1beta1.AuthParams) step { return step{renew: &p, want: want} }
	written := func(p, want authv1beta1.AuthParams) step { return step{identity: &p, want: want} }
	for name, steps := range map[string][]step{
		"the provider's address changes":                    {renew(at(first, "a"), at(first, "a")), renew(at(first, "b"), at(first, "b"))},
		"an address that authenticate wrote":                {renew(at(first, "a"), at(first, "a")), written(at(first, "b"), at(first, "b")), written(at(first, "b"), at(first, "b"))},
		"an address that authenticate wrote, then another":  {renew(at(first, "a"), at(first, "a")), written(at(first, "b"), at(first, "b")), renew(at(first, "c"), at(first, "c"))},
		"a certificate that authenticate brought":           {renew(at(first, "a"), at(first, "a")), written(at(second, "a"), at(second, "a"))},
		"a Renew that is late":                              {written(at(second, "a"), at(second, "a")), renew(at(first, "a"), at(second, "a"))},
		"a renewed certificate":                             {renew(at(first, "a"), at(first, "a")), renew(at(second, "a"), at(second, "a"))},
		"a certificate renewed after authenticate":          {renew(at(first, "a"), at(first, "a")), written(at(first, "b"), at(first, "b")), renew(at(second, "b"), at(second, "b"))},
		"the first answer is not that of the handshake":     {renew(at(first, "b"), at(first, "b"))},
		"an answer without credentials":                     {renew(authv1beta1.AuthParams{}, at(first, "a"))},
		"an address that is changed back by authenticate":   {renew(at(first, "b"), at(first, "b")), written(at(first, "a"), at(first, "a"))},
		"an address that is changed back, by the provider":  {renew(at(first, "b"), at(first, "b")), renew(at(first, "a"), at(first, "a"))},
		"an address that both change, to the same":          {written(at(first, "b"), at(first, "b")), renew(at(first, "b"), at(first, "b")), written(at(first, "c"), at(first, "c"))},
		"a certificate that is older, then the address too": {written(at(second, "a"), at(second, "a")), renew(at(first, "b"), at(second, "a"))},
	} {
		t.Run(name, func(t *testing.T) {
			keys := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: authentication.KeysSecretName, Namespace: "longshore"}, Data: map[string][]byte{"privateKey": private}}
			tenant := authentication.TenantNamespace("milan")
			identity := &authv1beta1.Identity{
				ObjectMeta: metav1.ObjectMeta{Name: "controlplane-milan", Namespace: tenant.Name, UID: "1"},
				Spec:       authv1beta1.IdentitySpec{ClusterID: "milan", Type: authv1beta1.ControlPlaneIdentityType, AuthParams: at(first, "a")},
			}
			c := fakeclient.Builder(keys, tenant, identity).Build()
			r := &Reconciler{Client: c, Events: events.NewFakeRecorder(100), Keys: &Keys{Client: c, APIReader: c, Namespace: "longshore"}, ClusterID: "rome"}
			settle := func() {
				t.Helper()
				for version := ""; ; {
					require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(identity), identity))
					if identity.ResourceVersion == version {
						return
					}
					version = identity.ResourceVersion
					_, err := r.Reconcile(t.Context(), identity.DeepCopy())
					require.NoError(t, err)
				}
			}
			settle()
			for i, step := range steps {
				if step.renew != nil {
					renew := &authv1beta1.Renew{}
					require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(identity), renew))
					renew.Status.AuthParams = step.renew
					require.NoError(t, c.Status().Update(t.Context(), renew))
				}
				if step.identity != nil {
					identity.Spec.AuthParams = *step.identity
					require.NoError(t, c.Update(t.Context(), identity))
				}
				// The update of the Renew, or of the Identity, enqueues the Identity.
				_, err := r.Reconcile(t.Context(), identity.DeepCopy())
				require.NoError(t, err)
				settle()
				assert.Equal(t, step.want, identity.Spec.AuthParams, "step %d", i+1)
				secret := &corev1.Secret{}
				require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: tenant.Name, Name: "kubeconfig-controlplane-milan"}, secret))
				assert.Contains(t, string(secret.Data["kubeconfig"]), step.want.APIServer, "step %d", i+1)
			}
		})
	}
}
