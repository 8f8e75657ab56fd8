package kubelet

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const connectionKubeconfig = `apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: milan, user: rome}}]
clusters: [{name: milan, cluster: {server: "https://milan", proxy-url: "http://proxy:1", tls-server-name: milan, certificate-authority-data: Y2E=}}]
users: [{name: rome, user: {token: t, as: somebody}}]
`

func connectionConfig(t *testing.T, edits ...string) *rest.Config {
	t.Helper()
	text := strings.NewReplacer(edits...).Replace(connectionKubeconfig)
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(text))
	require.NoError(t, err)
	return config
}

// Whatever a kubeconfig says of server and user is another connection when it changes;
// how it is written is not.
func TestSameConnection(t *testing.T) {
	before := connectionConfig(t)
	for name, edits := range map[string][]string{
		"another server":                  {"https://milan", "https://turin"},
		"another proxy":                   {"proxy:1", "proxy:2"},
		"no proxy":                        {`proxy-url: "http://proxy:1", `, ""},
		"another name of the server":      {"tls-server-name: milan", "tls-server-name: turin"},
		"another authority":               {"Y2E=", "Y2I="},
		"a server that is not verified":   {"certificate-authority-data: Y2E=", "insecure-skip-tls-verify: true"},
		"another token":                   {"token: t", "token: u"},
		"a password":                      {"token: t", "username: u, password: p"},
		"a certificate":                   {"token: t", "client-certificate-data: YQ==, client-key-data: YQ=="},
		"another one to be":               {"as: somebody", "as: nobody"},
		"groups of that one":              {"as: somebody", "as: somebody, as-groups: [g]"},
		"a program":                       {"token: t", "exec: {apiVersion: client.authentication.k8s.io/v1, command: a, interactiveMode: Never}"},
		"what is not compressed any more": {"server:", "disable-compression: true, server:"},
	} {
		t.Run(name, func(t *testing.T) {
			after := connectionConfig(t, edits...)
			assert.False(t, sameConnection(before, after))
			assert.True(t, sameConnection(after, connectionConfig(t, edits...)), "read twice it is the same")
		})
	}
	assert.True(t, sameConnection(before, connectionConfig(t, "name: c,", "name: d,", "current-context: c", "current-context: d")))
	program := func(command string) *rest.Config {
		return connectionConfig(t, "token: t", "exec: {apiVersion: client.authentication.k8s.io/v1, command: "+command+", interactiveMode: Never}")
	}
	assert.False(t, sameConnection(program("a"), program("b")), "another program")
}
