package authentication_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

func keys(t *testing.T) map[string]crypto.Signer {
	t.Helper()
	edwards, err := authentication.NewKey()
	require.NoError(t, err)
	rivest, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return map[string]crypto.Signer{"Ed25519": edwards, "RSA": rivest, "ECDSA": curve}
}

func TestNonceIsBase64OfSixtyFourBytes(t *testing.T) {
	nonce := authentication.NewNonce()
	assert.Len(t, nonce, 88)
	decoded, err := base64.StdEncoding.DecodeString(string(nonce))
	require.NoError(t, err)
	assert.Len(t, decoded, 64)
	assert.NotEqual(t, nonce, authentication.NewNonce())
}

func TestSignaturesOfEachKeyType(t *testing.T) {
	nonce := authentication.NewNonce()
	for name, key := range keys(t) {
		t.Run(name, func(t *testing.T) {
			private, public, err := authentication.EncodeKey(key)
			require.NoError(t, err)
			parsed, err := authentication.ParseKey(private)
			require.NoError(t, err)
			parsedPublic, err := authentication.ParsePublicKey(public)
			require.NoError(t, err)

			signature, err := authentication.Sign(parsed, nonce)
			require.NoError(t, err)
			require.NoError(t, authentication.Verify(parsedPublic, nonce, signature))
			require.Error(t, authentication.Verify(parsedPublic, authentication.NewNonce(), signature), "another nonce")
			signature[len(signature)-1] ^= 1
			require.Error(t, authentication.Verify(parsedPublic, nonce, signature), "another signature")
			require.Error(t, authentication.Verify(parsedPublic, nonce, nil), "no signature")
		})
	}
}

func TestRawEd25519PublicKeyOfOlderPeers(t *testing.T) {
	key, err := authentication.NewKey()
	require.NoError(t, err)
	raw, ok := key.Public().(ed25519.PublicKey)
	require.True(t, ok)
	parsed, err := authentication.ParsePublicKey(raw)
	require.NoError(t, err)
	assert.Equal(t, crypto.PublicKey(raw), parsed)
}

func TestKeysThatAreRefused(t *testing.T) {
	key, err := authentication.NewKey()
	require.NoError(t, err)
	private, public, err := authentication.EncodeKey(key)
	require.NoError(t, err)
	for name, encoded := range map[string][]byte{
		"nothing": nil, "no PEM": []byte("key"), "something follows": append(private, 'x'), "the public key": public,
		"not a key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("key")}),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := authentication.ParseKey(encoded)
			require.Error(t, err)
		})
	}
}

// request builds a certificate request from a template, as an attacker may.
func request(t *testing.T, key crypto.Signer, template *x509.CertificateRequest) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// TestCertificateRequestsOfAttackers holds S1, S2 of the wire: what the signer would copy into
// a certificate is exactly one user and one group.
func TestCertificateRequestsOfAttackers(t *testing.T) {
	key, err := authentication.NewKey()
	require.NoError(t, err)
	other, err := authentication.NewKey()
	require.NoError(t, err)
	want := authentication.ControlPlaneSubject("rome")
	name := pkix.Name{CommonName: "rome", Organization: []string{"liqo.io"}}
	oid := asn1.ObjectIdentifier{2, 5, 4, 10}
	for title, template := range map[string]*x509.CertificateRequest{
		"second organization": {Subject: pkix.Name{CommonName: "rome", Organization: []string{"liqo.io", "oslo"}}},
		"second organization, hidden among other names": {Subject: pkix.Name{
			CommonName: "rome", Organization: []string{"liqo.io"}, ExtraNames: []pkix.AttributeTypeAndValue{{Type: oid, Value: "system:masters"}},
		}},
		"no organization":    {Subject: pkix.Name{CommonName: "rome"}},
		"empty organization": {Subject: pkix.Name{CommonName: "rome", Organization: []string{""}}},
		"another user":       {Subject: pkix.Name{CommonName: "oslo", Organization: []string{"liqo.io"}}},
		"organizational unit": {Subject: pkix.Name{
			CommonName: "rome", Organization: []string{"liqo.io"}, OrganizationalUnit: []string{"admins"},
		}},
		"DNS name":      {Subject: name, DNSNames: []string{"kubernetes.default"}},
		"address":       {Subject: name, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}},
		"extra key use": {Subject: name, ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 37}, Value: []byte{0x30, 0}}}},
	} {
		t.Run(title, func(t *testing.T) {
			require.Error(t, authentication.CheckCSR(request(t, key, template), want, key.Public()))
		})
	}
	valid := request(t, key, &x509.CertificateRequest{Subject: name})
	require.NoError(t, authentication.CheckCSR(valid, want, key.Public()))
	require.NoError(t, authentication.CheckCSR(valid, want, nil))
	require.Error(t, authentication.CheckCSR(request(t, other, &x509.CertificateRequest{Subject: name}), want, key.Public()), "another key")
	require.Error(t, authentication.CheckCSR(append(valid, 'x'), want, key.Public()), "something follows")
	require.Error(t, authentication.CheckCSR(nil, want, key.Public()), "nothing")
	tampered, _ := pem.Decode(valid)
	tampered.Bytes[len(tampered.Bytes)-1] ^= 1
	require.Error(t, authentication.CheckCSR(pem.EncodeToMemory(tampered), want, key.Public()), "a signature that does not match")
}

func TestRequestsMatchTheirSubjects(t *testing.T) {
	for name, key := range keys(t) {
		t.Run(name, func(t *testing.T) {
			for _, subject := range []authentication.Subject{
				authentication.ControlPlaneSubject("rome"), authentication.SliceSubject("rome", "milan"),
			} {
				csr, err := authentication.NewCSR(key, subject)
				require.NoError(t, err)
				require.NoError(t, authentication.CheckCSR(csr, subject, key.Public()))
			}
		})
	}
}

// TestSliceSubject holds the user that Liqo makes: the slice, a dash, and 12 digits of the
// SHA-256 of the cluster ID.
func TestSliceSubject(t *testing.T) {
	assert.Equal(t, authentication.Subject{User: "gpu-a8a4c692b93b", Group: "rome"}, authentication.SliceSubject("rome", "gpu"))
}

func TestCertificatesAreRenewedAtTwoThirds(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const certificates, tenth = 1000, 9 * time.Hour
	perHour := map[time.Duration]int{}
	for i := range certificates {
		certificate := &x509.Certificate{NotBefore: start, NotAfter: start.Add(90 * time.Hour), Raw: fmt.Append(nil, i)}
		at := authentication.RenewAt(certificate)
		assert.Equal(t, at, authentication.RenewAt(certificate), "it does not move")
		early := start.Add(60 * time.Hour).Sub(at)
		require.GreaterOrEqual(t, early, time.Duration(0), "two thirds at the latest")
		require.Less(t, early, tenth)
		perHour[early.Truncate(time.Hour)]++
	}
	require.Len(t, perHour, 9)
	for hour, count := range perHour {
		assert.InDelta(t, certificates/9, count, certificates/20, "renewals are spread: %s", hour)
	}
	assert.Equal(t, start, authentication.RenewAt(&x509.Certificate{NotBefore: start, NotAfter: start}), "without a lifetime")
}

func TestCertificatesBelongToTheirKeys(t *testing.T) {
	for name, key := range keys(t) {
		t.Run(name, func(t *testing.T) {
			template := &x509.Certificate{SerialNumber: big.NewInt(1)}
			der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
			require.NoError(t, err)
			certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
			assert.True(t, authentication.IsKeyOf(key.Public(), certificate))
			for other, another := range keys(t) {
				assert.False(t, authentication.IsKeyOf(another.Public(), certificate), other)
			}
			assert.False(t, authentication.IsKeyOf(key.Public(), nil))
		})
	}
}

func TestControlPlaneIdentity(t *testing.T) {
	tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "rome"}}
	_, err := authentication.ControlPlaneIdentity("liqo-tenant-milan", "milan", tenant)
	require.ErrorContains(t, err, "no credentials")

	tenant.Status = authv1beta1.TenantStatus{TenantNamespace: "liqo-tenant-rome", AuthParams: &authv1beta1.AuthParams{
		APIServer: "https://milan:6443", CA: []byte("ca"), SignedCRT: []byte("certificate"), ProxyURL: ptr.To("http://proxy:8118"),
	}}
	identity, err := authentication.ControlPlaneIdentity("liqo-tenant-milan", "milan", tenant)
	require.NoError(t, err)
	assert.Equal(t, "controlplane-milan", identity.Name)

	secret, err := authentication.KubeconfigSecret(identity, []byte("key"))
	require.NoError(t, err)
	assert.Equal(t, "kubeconfig-controlplane-milan", secret.Name)
	assert.Equal(t, map[string]string{"liqo.io/remote-cluster-id": "milan", "liqo.io/identity-type": "ControlPlane"}, secret.Labels)
	assert.Equal(t, map[string]string{"liqo.io/remote-tenant-namespace": "liqo-tenant-rome"}, secret.Annotations)
	config, err := clientcmd.Load(secret.Data["kubeconfig"])
	require.NoError(t, err)
	assert.Equal(t, "default-context", config.CurrentContext)
	current := config.Contexts[config.CurrentContext]
	assert.Equal(t, "liqo-tenant-rome", current.Namespace)
	assert.Equal(t, "http://proxy:8118", config.Clusters[current.Cluster].ProxyURL)
	assert.Equal(t, []byte("key"), config.AuthInfos[current.AuthInfo].ClientKeyData)

	renew := authentication.Renew(identity, "rome")
	assert.Equal(t, "controlplane-milan", renew.Name)
	assert.Equal(t, "true", renew.Labels["liqo.io/replication"])
	assert.Equal(t, "milan", renew.Labels["liqo.io/remoteID"])
}

func TestSliceIdentityHasNoNamespace(t *testing.T) {
	slice := authentication.ResourceSlice("liqo-tenant-milan", "gpu", "milan", nil, authv1beta1.ResourceSliceSpec{})
	assert.Nil(t, authentication.SliceIdentity(slice), "no credentials yet")
	slice.Status.AuthParams = &authv1beta1.AuthParams{APIServer: "https://milan:6443"}
	identity := authentication.SliceIdentity(slice)
	require.NotNil(t, identity)
	assert.Equal(t, "gpu", identity.Labels["liqo.io/resourceslice-name"])
	secret, err := authentication.KubeconfigSecret(identity, nil)
	require.NoError(t, err)
	assert.Equal(t, "kubeconfig-resourceslice-gpu", secret.Name)
	assert.Empty(t, secret.Annotations)
}
