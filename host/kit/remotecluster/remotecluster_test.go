package remotecluster_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/longshore-dev/longshore/host/kit/remotecluster"
)

var now = time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC)

// pair makes a client certificate that lasts until an hour from now.
func pair(t *testing.T) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "milan-1", Organization: []string{"rome"}},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	require.NoError(t, err)
	encoded, err := x509.MarshalECPrivateKey(private)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded})
}

// kubeconfig is a good one, as a provider issues it, but for an alteration.
func kubeconfig(t *testing.T, alter func(*clientcmdapi.Config)) []byte {
	t.Helper()
	certificate, key := pair(t)
	config := clientcmdapi.NewConfig()
	config.Clusters["milan"] = &clientcmdapi.Cluster{Server: "https://milan:6443", InsecureSkipTLSVerify: true, ProxyURL: "http://proxy:3128"}
	config.AuthInfos["user"] = &clientcmdapi.AuthInfo{ClientCertificateData: certificate, ClientKeyData: key}
	config.Contexts["default-context"] = &clientcmdapi.Context{Cluster: "milan", AuthInfo: "user"}
	config.CurrentContext = "default-context"
	if alter != nil {
		alter(config)
	}
	raw, err := clientcmd.Write(*config)
	require.NoError(t, err)
	return raw
}

func secret(data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "kubeconfig"}, Data: data}
}

func TestInvalidSecrets(t *testing.T) {
	_, otherKey := pair(t)
	aws := map[string][]byte{"kubeconfig": kubeconfig(t, nil)}
	for _, key := range []string{"awsAccessKeyID", "awsSecretAccessKey", "awsRegion", "awsEksClusterID", "awsIamUserArn"} {
		aws[key] = []byte("x")
	}
	altered := func(alter func(*clientcmdapi.Config)) map[string][]byte {
		return map[string][]byte{"kubeconfig": kubeconfig(t, alter)}
	}
	for name, tc := range map[string]struct {
		data map[string][]byte
		want string
	}{
		"no key":             {nil, `has no key "kubeconfig"`},
		"an empty key":       {map[string][]byte{"kubeconfig": {}}, `has no key "kubeconfig"`},
		"not a kubeconfig":   {map[string][]byte{"kubeconfig": []byte("rubbish")}, `key "kubeconfig" is not a kubeconfig`},
		"no current context": {altered(func(c *clientcmdapi.Config) { c.CurrentContext = "" }), `current-context "" does not exist`},
		"an unknown context": {altered(func(c *clientcmdapi.Config) { c.CurrentContext = "x" }), `current-context "x" does not exist`},
		"no cluster":         {altered(func(c *clientcmdapi.Config) { delete(c.Clusters, "milan") }), `cluster "milan" of context "default-context" has no server`},
		"no server":          {altered(func(c *clientcmdapi.Config) { c.Clusters["milan"].Server = "" }), `cluster "milan" of context "default-context" has no server`},
		"no user":            {altered(func(c *clientcmdapi.Config) { delete(c.AuthInfos, "user") }), `user "user" of context "default-context" does not exist`},
		"a program to run": {altered(func(c *clientcmdapi.Config) {
			c.AuthInfos["user"].Exec = &clientcmdapi.ExecConfig{Command: "sh", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: "Never"}
		}), "runs a program"},
		"a file to read":     {altered(func(c *clientcmdapi.Config) { c.AuthInfos["user"].TokenFile = "/etc/shadow" }), "refers to files"},
		"another key":        {altered(func(c *clientcmdapi.Config) { c.AuthInfos["user"].ClientKeyData = otherKey }), "invalid client certificate"},
		"an identity of EKS": {aws, "has an EKS identity (awsAccessKeyID …)"},
	} {
		t.Run(name, func(t *testing.T) {
			config, err := remotecluster.Config(secret(tc.data), remotecluster.Limits{})
			require.ErrorContains(t, err, tc.want)
			assert.ErrorContains(t, err, "Secret liqo-tenant-milan/kubeconfig")
			assert.Nil(t, config)
		})
	}
}

func TestConfig(t *testing.T) {
	config, err := remotecluster.Config(secret(map[string][]byte{"kubeconfig": kubeconfig(t, nil), "awsRegion": []byte("x")}), remotecluster.Limits{})
	require.NoError(t, err)
	assert.Equal(t, "https://milan:6443", config.Host)
	assert.NotEmpty(t, config.CertData)
	require.NotNil(t, config.Proxy, "proxy-url is heeded")

	_, expired := remotecluster.Expired(config, now)
	assert.False(t, expired)
	ended, expired := remotecluster.Expired(config, now.Add(2*time.Hour))
	assert.True(t, expired)
	assert.Equal(t, now.Add(time.Hour), ended.UTC())
}

func TestExpiredIgnoresTokens(t *testing.T) {
	config, err := remotecluster.Config(secret(map[string][]byte{"kubeconfig": kubeconfig(t, func(c *clientcmdapi.Config) {
		c.AuthInfos["user"] = &clientcmdapi.AuthInfo{Token: "t"}
	})}), remotecluster.Limits{})
	require.NoError(t, err)
	_, expired := remotecluster.Expired(config, now.Add(1000*time.Hour))
	assert.False(t, expired)
}
