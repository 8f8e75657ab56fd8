package remotecluster_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/longshore-dev/longshore/host/kit/remotecluster"
)

// user returns a configuration with a client certificate.
func user(t *testing.T, server string, subject pkix.Name, validFor time.Duration) *rest.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: subject, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(validFor),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	return &rest.Config{Host: server, TLSClientConfig: rest.TLSClientConfig{
		Insecure: true,
		CertData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		KeyData:  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}),
	}}
}

func TestSameRights(t *testing.T) {
	ofSlice := func(name string, organization ...string) *rest.Config {
		return user(t, "https://milan", pkix.Name{CommonName: name, Organization: organization}, time.Hour)
	}
	first := ofSlice("first", "rome")
	withToken := func(token string) *rest.Config { return &rest.Config{Host: "https://milan", BearerToken: token} }
	elsewhere := ofSlice("first", "rome")
	elsewhere.Host = "https://turin"
	tests := map[string]struct {
		a, b *rest.Config
		want bool
	}{
		"the same user":                                 {first, rest.CopyConfig(first), true},
		"a renewed certificate":                         {first, ofSlice("first", "rome"), true},
		"users of two ResourceSlices of one consumer":   {first, ofSlice("second", "rome"), true},
		"users of two consumers":                        {first, ofSlice("first", "oslo"), false},
		"a user of one more organization":               {first, ofSlice("first", "rome", "oslo"), false},
		"users without an organization":                 {ofSlice("first"), ofSlice("second"), false},
		"two servers":                                   {first, elsewhere, false},
		"a certificate and a token":                     {first, withToken("t"), false},
		"the same token":                                {withToken("t"), withToken("t"), true},
		"two tokens: their organizations are not known": {withToken("t"), withToken("u"), false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, remotecluster.SameRights(tc.a, tc.b))
			assert.Equal(t, tc.want, remotecluster.SameRights(tc.b, tc.a))
		})
	}
}

func TestReadersReadAsTheUserWhoseCertificateExpiresLast(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.WriteString(w, r.TLS.PeerCertificates[0].Subject.CommonName)
		assert.NoError(t, err)
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	ofSlice := func(name string, validFor time.Duration) *rest.Config {
		return user(t, server.URL, pkix.Name{CommonName: name, Organization: []string{"rome"}}, validFor)
	}
	readers := &remotecluster.Readers{}
	first := ofSlice("first", time.Hour)
	config, err := readers.Config(first)
	require.NoError(t, err)
	c, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	get := func() (string, error) {
		response, err := c.Get(server.URL)
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return string(body), err
	}
	add := func(config *rest.Config) func() {
		remove, err := readers.Add(config)
		require.NoError(t, err)
		return remove
	}
	assertReader := func(want string) {
		t.Helper()
		got, err := get()
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}

	removeFirst := add(first)
	assertReader("first")
	removeSecond := add(ofSlice("second", 2*time.Hour))
	removeThird := add(ofSlice("third", time.Minute))
	assertReader("second")
	removeSecond()
	assertReader("first")
	removeFirst()
	assertReader("third")
	removeThird()
	_, err = get()
	assert.ErrorContains(t, err, "no virtual node uses this connection")
}
