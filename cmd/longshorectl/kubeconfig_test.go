package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
)

// expired returns a client certificate that has expired, and its key.
func expired(t *testing.T) (certificate, key []byte) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "admin"},
		NotBefore: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2021, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}

// closedPort returns the URL of a server that is not there.
func closedPort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return "https://" + listener.Addr().String()
}

// parts are a kubeconfig, and the cluster and the user of its current context.
type parts struct {
	*clientcmdapi.Config
	cluster *clientcmdapi.Cluster
	user    *clientcmdapi.AuthInfo
}

// badKubeconfig cannot work.
type badKubeconfig struct {
	// change makes the kubeconfig bad.
	change func(parts)
	// content is that of the file instead; nil means that there is none.
	content *string
	flags   []string
	code    int
	message string
}

// badKubeconfigs are those of a folder: a server that is closed, and a certificate that has expired.
func badKubeconfigs(dir, closed string, certificate, key []byte) map[string]badKubeconfig {
	return map[string]badKubeconfig{
		"a file that is missing":   {code: output.CodeFailed, message: "bad: no such file or directory"},
		"a file that is no YAML":   {content: new("a: ["), code: output.CodeFailed, message: `error loading config file "`},
		"an empty file":            {content: new(""), code: output.CodeFailed, message: "no kubeconfig names a cluster: set --"},
		"a context that is absent": {change: func(parts) {}, flags: []string{"--@context", "none"}, code: output.CodeUsage, message: `context "none" does not exist in the kubeconfig `},
		"no current context":       {change: func(p parts) { p.CurrentContext = "" }, code: output.CodeFailed, message: "bad has no current context: set --"},
		"a wrong current context":  {change: func(p parts) { p.CurrentContext = "old" }, code: output.CodeFailed, message: `the current context "old" does not exist in the kubeconfig`},
		"a user that is absent":    {change: func(p parts) { clear(p.AuthInfos) }, code: output.CodeFailed, message: "bad has no user "},
		"a cluster that is absent": {change: func(p parts) { clear(p.Clusters) }, code: output.CodeFailed, message: "bad has no cluster "},
		"a server that is unreachable": {change: func(p parts) { p.cluster.Server = closed }, code: output.CodeFailed,
			message: " at " + closed + " does not answer: "},
		"a server of another authority": {change: func(p parts) { p.cluster.CertificateAuthorityData = certificate }, code: output.CodeFailed,
			message: "tls: failed to verify certificate: x509: certificate signed by unknown authority"},
		"an expired certificate": {change: func(p parts) { *p.user = clientcmdapi.AuthInfo{ClientCertificateData: certificate, ClientKeyData: key} }, code: output.CodeFailed,
			message: "bad: the client certificate expired at 2021-01-01T00:00:00Z: renew it"},
		"a file of a certificate that is missing": {change: func(p parts) { *p.user = clientcmdapi.AuthInfo{ClientCertificate: "none.crt", ClientKey: "none.key"} },
			code: output.CodeFailed, message: "unable to read client-cert " + filepath.Join(dir, "none.crt")},
		"a file of a token that is missing": {change: func(p parts) { *p.user = clientcmdapi.AuthInfo{TokenFile: "none"} }, code: output.CodeFailed,
			message: "open " + filepath.Join(dir, "none") + ": no such file or directory"},
		"a token that is refused": {change: func(p parts) { *p.user = clientcmdapi.AuthInfo{Token: "x"} }, code: output.CodeFailed,
			message: " refuses the credentials of the kubeconfig: log in again, or renew them"},
		"a plugin that is not installed": {change: func(p parts) { *p.user = plugin("longshore-has-no-such-plugin") }, code: output.CodeFailed,
			message: `bad: the credential plugin "longshore-has-no-such-plugin" is not installed: exec: "longshore-has-no-such-plugin": executable file not found in $PATH`},
		"a plugin that fails": {change: func(p parts) { *p.user = plugin("false") }, code: output.CodeFailed,
			message: "getting credentials: exec: executable false failed with exit code 1"},
	}
}

// TestBadKubeconfigsAreExplained gives longshorectl peer, unpeer and authenticate a kubeconfig that
// cannot work for one cluster, and one of a real API server for the other.
func TestBadKubeconfigsAreExplained(t *testing.T) {
	plane := planetest.ForTest(t, "rome")
	c, err := client.New(plane.RESTConfig(), client.Options{})
	require.NoError(t, err)
	create(t, c, namespace("longshore"), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "longshore", Name: "clusterid", Labels: map[string]string{"app.kubernetes.io/name": "clusterid-configmap"}},
		Data:       map[string]string{"CLUSTER_ID": "rome"},
	})
	good, err := clientcmd.LoadFromFile(plane.Kubeconfig())
	require.NoError(t, err)
	certificate, key := expired(t)
	closed := closedPort(t)
	dir := t.TempDir()
	for name, tc := range badKubeconfigs(dir, closed, certificate, key) {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, "bad")
			require.NoError(t, os.RemoveAll(path))
			switch {
			case tc.content != nil:
				require.NoError(t, os.WriteFile(path, []byte(*tc.content), 0o600))
			case tc.change != nil:
				bad := good.DeepCopy()
				current := bad.Contexts[bad.CurrentContext]
				tc.change(parts{bad, bad.Clusters[current.Cluster], bad.AuthInfos[current.AuthInfo]})
				require.NoError(t, clientcmd.WriteToFile(*bad, path))
			}
			other := good.DeepCopy()
			other.Clusters[other.Contexts[other.CurrentContext].Cluster].Server += "/" // As another cluster.
			working := filepath.Join(dir, "working")
			require.NoError(t, clientcmd.WriteToFile(*other, working))
			for _, verb := range []string{"peer", "unpeer", "authenticate"} {
				for side, args := range map[string][]string{
					"":        {"--kubeconfig", path, "--remote-kubeconfig", working},
					"remote-": {"--kubeconfig", working, "--remote-kubeconfig", path},
				} {
					args := append([]string{verb}, args...)
					for _, flag := range tc.flags {
						args = append(args, strings.ReplaceAll(flag, "@", side))
					}
					root := command(nil)
					root.SetArgs(args)
					code, message := output.ExitCode(root.ExecuteContext(t.Context()))
					assert.Equal(t, tc.code, code, args)
					assert.Contains(t, message, tc.message, args)
					assert.NotContains(t, message, "\n", args)
					if strings.HasSuffix(tc.message, "set --") {
						assert.Contains(t, message, "set --"+side, args)
					}
				}
			}
		})
	}
}

func plugin(command string) clientcmdapi.AuthInfo {
	return clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
		APIVersion: "client.authentication.k8s.io/v1", Command: command, InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
	}}
}
