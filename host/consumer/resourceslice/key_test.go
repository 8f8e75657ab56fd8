package resourceslice

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
	"github.com/longshore-dev/longshore/host/consumer/identity"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

func certificateOf(t *testing.T, key crypto.Signer) []byte {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// TestARequestIsReplacedWhenTheProviderKnowsTheKey replaces the cluster's key.
func TestARequestIsReplacedWhenTheProviderKnowsTheKey(t *testing.T) {
	earlier, err := authentication.NewKey()
	require.NoError(t, err)
	current, err := authentication.NewKey()
	require.NoError(t, err)
	private, _, err := authentication.EncodeKey(current)
	require.NoError(t, err)
	subject := authentication.SliceSubject("rome", "gpu")
	csr, err := authentication.NewCSR(earlier, subject)
	require.NoError(t, err)

	tenant := authentication.TenantNamespace("milan")
	keys := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: authentication.KeysSecretName, Namespace: "longshore"}, Data: map[string][]byte{"privateKey": private}}
	controlPlane := &authv1beta1.Identity{
		ObjectMeta: metav1.ObjectMeta{Name: "controlplane-milan", Namespace: tenant.Name},
		Spec: authv1beta1.IdentitySpec{
			ClusterID: "milan", Type: authv1beta1.ControlPlaneIdentityType, AuthParams: authv1beta1.AuthParams{SignedCRT: certificateOf(t, earlier)},
		},
	}
	slice := authentication.ResourceSlice(tenant.Name, "gpu", "milan", nil, authv1beta1.ResourceSliceSpec{CSR: csr})
	c := fakeclient.Builder(tenant, keys, controlPlane, slice).Build()
	r := &Reconciler{Client: c, Events: events.NewFakeRecorder(10), Keys: &identity.Keys{Client: c, APIReader: c, Namespace: "longshore"}, ClusterID: "rome"}
	reconcile := func() *authv1beta1.ResourceSlice {
		t.Helper()
		read := &authv1beta1.ResourceSlice{}
		// The first completes the cluster IDs.
		for range 2 {
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(slice), read))
			_, err := r.Reconcile(t.Context(), read)
			require.NoError(t, err)
		}
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(slice), read))
		return read
	}
	assert.Equal(t, csr, reconcile().Spec.CSR, "the provider knows the earlier key")

	controlPlane.Spec.AuthParams.SignedCRT = certificateOf(t, current)
	require.NoError(t, c.Update(t.Context(), controlPlane))
	assert.Equal(t, "gpu", r.slicesOf(t.Context(), controlPlane)[0].Name)
	replaced := reconcile().Spec.CSR
	require.NoError(t, authentication.CheckCSR(replaced, subject, current.Public()))
	assert.Equal(t, replaced, reconcile().Spec.CSR, "once")

	require.NoError(t, c.Delete(t.Context(), controlPlane))
	forged, err := authentication.NewCSR(earlier, subject)
	require.NoError(t, err)
	read := reconcile()
	read.Spec.CSR = forged
	require.NoError(t, c.Update(t.Context(), read))
	require.NoError(t, authentication.CheckCSR(reconcile().Spec.CSR, subject, current.Public()), "without a handshake the provider takes any key")
}
