package remotecluster_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/longshore-dev/longshore/host/kit/remotecluster"
)

const connectionKubeconfig = `apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: milan, user: rome}}]
clusters: [{name: milan, cluster: {server: "https://milan", proxy-url: "http://proxy:1", tls-server-name: milan, certificate-authority-data: Y2E=}}]
users: [{name: rome, user: {token: t, as: alice}}]
`

func connectionConfig(t *testing.T, edits ...string) *rest.Config {
	t.Helper()
	text := strings.NewReplacer(edits...).Replace(connectionKubeconfig)
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(text))
	require.NoError(t, err)
	return config
}

func TestSameConnection(t *testing.T) {
	before := connectionConfig(t)
	for name, edits := range map[string][]string{
		"another server":                {"https://milan", "https://turin"},
		"another proxy":                 {"proxy:1", "proxy:2"},
		"no proxy":                      {`proxy-url: "http://proxy:1", `, ""},
		"another TLS server name":       {"tls-server-name: milan", "tls-server-name: turin"},
		"another certificate authority": {"Y2E=", "Y2I="},
		"a server without verification": {"certificate-authority-data: Y2E=", "insecure-skip-tls-verify: true"},
		"another token":                 {"token: t", "token: u"},
		"a password":                    {"token: t", "username: u, password: p"},
		"a certificate":                 {"token: t", "client-certificate-data: YQ==, client-key-data: YQ=="},
		"another impersonated user":     {"as: alice", "as: bob"},
		"impersonated groups":           {"as: alice", "as: alice, as-groups: [g]"},
		"an exec plugin":                {"token: t", "exec: {apiVersion: client.authentication.k8s.io/v1, command: a, interactiveMode: Never}"},
		"compression disabled":          {"server:", "disable-compression: true, server:"},
	} {
		t.Run(name, func(t *testing.T) {
			after := connectionConfig(t, edits...)
			assert.False(t, remotecluster.SameConnection(before, after))
			assert.True(t, remotecluster.SameConnection(after, connectionConfig(t, edits...)), "the same kubeconfig read twice")
		})
	}
	assert.True(t, remotecluster.SameConnection(before, connectionConfig(t, "name: c,", "name: d,", "current-context: c", "current-context: d")))
	withExec := func(command string) *rest.Config {
		return connectionConfig(t, "token: t", "exec: {apiVersion: client.authentication.k8s.io/v1, command: "+command+", interactiveMode: Never}")
	}
	assert.False(t, remotecluster.SameConnection(withExec("a"), withExec("b")), "another exec plugin")
}
