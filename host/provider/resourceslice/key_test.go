package resourceslice

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
	"k8s.io/utils/ptr"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

func newKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := authentication.NewKey()
	require.NoError(t, err)
	return key
}

func requestOf(t *testing.T, key crypto.Signer, slice string) []byte {
	t.Helper()
	csr, err := authentication.NewCSR(key, authentication.SliceSubject("rome", slice))
	require.NoError(t, err)
	return csr
}

// TestCredentialsOfAnEarlierKeyStay replaces the key of a tenant whose slice has credentials.
func TestCredentialsOfAnEarlierKeyStay(t *testing.T) {
	earlier, current := newKey(t), newKey(t)
	end := time.Unix(5000, 0)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: end}
	der, err := x509.CreateCertificate(rand.Reader, template, template, earlier.Public(), earlier)
	require.NoError(t, err)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	public, err := authentication.EncodePublicKey(current.Public())
	require.NoError(t, err)
	tenant := &authv1beta1.Tenant{
		Spec:   authv1beta1.TenantSpec{ClusterID: "rome", PublicKey: public},
		Status: authv1beta1.TenantStatus{AuthParams: &authv1beta1.AuthParams{}},
	}
	accepted := []authv1beta1.ResourceSliceCondition{{Type: authv1beta1.ResourceSliceConditionTypeAuthentication, Status: authv1beta1.ResourceSliceConditionAccepted}}
	for name, tc := range map[string]struct {
		change func(*authv1beta1.ResourceSlice)
		stays  bool
	}{
		"the certificate is valid": {func(*authv1beta1.ResourceSlice) {}, true},
		"the certificate ended": {func(s *authv1beta1.ResourceSlice) {
			expired := *template
			expired.NotAfter = time.Unix(999, 0)
			der, err := x509.CreateCertificate(rand.Reader, &expired, &expired, earlier.Public(), earlier)
			require.NoError(t, err)
			s.Status.AuthParams.SignedCRT = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
		}, false},
		"no credentials":                 {func(s *authv1beta1.ResourceSlice) { s.Status.AuthParams = nil }, false},
		"no certificate":                 {func(s *authv1beta1.ResourceSlice) { s.Status.AuthParams.SignedCRT = nil }, false},
		"denied before":                  {func(s *authv1beta1.ResourceSlice) { s.Status.Conditions = nil }, false},
		"a request for a third key":      {func(s *authv1beta1.ResourceSlice) { s.Spec.CSR = requestOf(t, newKey(t), "gpu") }, false},
		"a request for another identity": {func(s *authv1beta1.ResourceSlice) { s.Spec.CSR = requestOf(t, earlier, "other") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			slice := r.slice
			slice.Spec.ConsumerClusterID, slice.Spec.CSR = ptr.To(liqocorev1beta1.ClusterID("rome")), requestOf(t, earlier, "gpu")
			slice.Status.AuthParams = &authv1beta1.AuthParams{SignedCRT: certificate}
			slice.Status.Conditions = append([]authv1beta1.ResourceSliceCondition(nil), accepted...)
			tc.change(slice)
			before := slice.Status.DeepCopy()
			result, err := r.authenticate(t.Context(), slice, tenant)
			require.NoError(t, err)
			if tc.stays {
				assert.Equal(t, before, &slice.Status)
				assert.Equal(t, end.Sub(time.Unix(1000, 0)), result.RequeueAfter, "looked at again when the certificate ends")
				return
			}
			require.NotEmpty(t, slice.Status.Conditions)
			assert.Equal(t, authv1beta1.ResourceSliceConditionDenied, slice.Status.Conditions[0].Status)
		})
	}
}
