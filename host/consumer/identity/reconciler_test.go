package identity

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"testing"

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

func certificateOf(t *testing.T, key crypto.Signer, serial int64) []byte {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(serial)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func newKey(t *testing.T) (crypto.Signer, []byte) {
	t.Helper()
	key, err := authentication.NewKey()
	require.NoError(t, err)
	private, _, err := authentication.EncodeKey(key)
	require.NoError(t, err)
	return key, private
}

// TestAKubeconfigHasTheKeyOfItsCertificate replaces the cluster's key.
func TestAKubeconfigHasTheKeyOfItsCertificate(t *testing.T) {
	earlier, earlierPEM := newKey(t)
	current, currentPEM := newKey(t)
	other, _ := newKey(t)
	keys := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: authentication.KeysSecretName, Namespace: "longshore"}, Data: map[string][]byte{"privateKey": earlierPEM}}
	identity := &authv1beta1.Identity{
		ObjectMeta: metav1.ObjectMeta{Name: "resourceslice-gpu", Namespace: "liqo-tenant-milan", UID: "1"},
		Spec: authv1beta1.IdentitySpec{
			ClusterID: "milan", Type: authv1beta1.ResourceSliceIdentityType,
			AuthParams: authv1beta1.AuthParams{APIServer: "https://milan", SignedCRT: certificateOf(t, earlier, 1)},
		},
	}
	tenant := authentication.TenantNamespace("milan")
	c := fakeclient.Builder(keys, tenant, identity).Build()
	recorder := events.NewFakeRecorder(10)
	r := &Reconciler{Client: c, Events: recorder, Keys: &Keys{Client: c, APIReader: c, Namespace: "longshore"}, ClusterID: "rome"}
	secret := &corev1.Secret{}
	reconcile := func() {
		t.Helper()
		_, err := r.Reconcile(t.Context(), identity)
		require.NoError(t, err)
		require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: tenant.Name, Name: "kubeconfig-resourceslice-gpu"}, secret))
	}
	reconcile()
	assert.Equal(t, earlierPEM, authentication.KubeconfigKey(secret))

	keys.Data["privateKey"] = currentPEM
	require.NoError(t, c.Update(t.Context(), keys))
	identity.Spec.AuthParams.APIServer = "https://other"
	reconcile()
	assert.Equal(t, earlierPEM, authentication.KubeconfigKey(secret), "the certificate is of the earlier key")
	assert.Contains(t, string(secret.Data["kubeconfig"]), "https://other", "everything else follows the Identity")

	identity.Spec.AuthParams.SignedCRT = certificateOf(t, current, 2)
	reconcile()
	assert.Equal(t, currentPEM, authentication.KubeconfigKey(secret))

	before := secret.DeepCopy()
	for len(recorder.Events) > 0 {
		<-recorder.Events
	}
	identity.Spec.AuthParams.SignedCRT = certificateOf(t, other, 3)
	reconcile()
	assert.Equal(t, before.Data, secret.Data, "a certificate without its key replaces nothing")
	assert.Contains(t, <-recorder.Events, "Run longshorectl authenticate")
}
