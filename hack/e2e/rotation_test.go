package e2e_test

import (
	"bufio"
	"crypto/x509"
	"encoding/pem"
	"maps"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
)

// kubeletAPI is the key of the virtual node's serving certificate.
const kubeletAPI = "the kubelet API"

// serialNumbers returns those of the certificates that the clusters sign: that the provider signed for
// rome, by the Secret that holds them, and that with which the virtual node serves the kubelet API.
// The webhook's certificate is its own (host/kit/servingcert renews it), and lasts longer than a test.
func (w *world) serialNumbers(t planetest.T) map[string]string {
	t.Helper()
	found := &corev1.Node{}
	require.NoError(t, w.rome.Get(t.Context(), client.ObjectKey{Name: providerID}, found))
	address := ""
	for _, a := range found.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			address = net.JoinHostPort(a.Address, strconv.Itoa(int(found.Status.DaemonEndpoints.KubeletEndpoint.Port)))
		}
	}
	serving := w.rome.kubectl(t, "-n", "default", "exec", "client", "--", "/app", "certificate", address)
	serials := map[string]string{kubeletAPI: serialNumber(t, []byte(serving))}
	secrets := &corev1.SecretList{}
	require.NoError(t, w.rome.List(t.Context(), secrets, client.InNamespace("liqo-tenant-"+providerID)))
	for i := range secrets.Items {
		if content, ok := secrets.Items[i].Data["kubeconfig"]; ok {
			config, err := clientcmd.RESTConfigFromKubeConfig(content)
			require.NoError(t, err)
			serials[secrets.Items[i].Name] = serialNumber(t, config.CertData)
		}
	}
	require.Greater(t, len(serials), 2, "there are identities of the cluster and of the virtual node: %v", serials)
	return serials
}

func serialNumber(t planetest.T, content []byte) string {
	t.Helper()
	block, _ := pem.Decode(content)
	require.NotNil(t, block)
	leaf, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	require.NotEqual(t, leaf.Subject.String(), leaf.Issuer.String(), "it is signed by the cluster")
	return leaf.SerialNumber.String()
}

// All certificates that the clusters sign are renewed; streams that were open before go on, and new
// ones open at any time.
func (w *world) rotateCertificates(t *testing.T) {
	w.rome.apply(t, localClient)
	w.rome.readyPods(t, "default", "app=client", 1)
	pod := w.rome.readyPods(t, "shop", "app=web", 2)[0].Name
	logs := w.rome.kubectlCommand(t.Context(), "-n", "shop", "logs", "-f", "--tail=1", pod)
	out, err := logs.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, logs.Start())
	t.Cleanup(func() {
		_ = logs.Process.Kill()
		_ = logs.Wait()
	})
	lines := bufio.NewScanner(out)
	path := func(i int) string { return "/renewed-" + strconv.Itoa(i) }
	var failures []string
	i, before := 0, w.serialNumbers(t)
	planetest.Until(t, func(t planetest.T) bool {
		now := w.serialNumbers(t)
		i++
		if out, err := w.rome.kubectlCommand(t.Context(), "-n", "shop", "exec", pod, "--", "/app", "get", "http://localhost:8080"+path(i)).CombinedOutput(); err != nil {
			failures = append(failures, string(out))
		}
		maps.DeleteFunc(now, func(name, serial string) bool { return before[name] != serial })
		return assert.Empty(t, now, "not renewed yet")
	}, signingDuration, 20*poll, "all certificates are renewed")
	assert.Empty(t, failures, "kubectl exec")
	// The stream has all that was logged meanwhile.
	next := 1
	for next <= i && lines.Scan() {
		if strings.HasSuffix(lines.Text(), "GET "+path(next)) {
			next++
		}
	}
	assert.Greater(t, next, i, "logs -f ended: %v", lines.Err())
}
