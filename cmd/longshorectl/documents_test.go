package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
)

// referenceCommands are the command lines of the reference's documents and of its client, with
// all flags of each.
var referenceCommands = []string{
	"peer --timeout --skip-validation --networking-disabled --gw-server-service-location --gw-server-service-type --gw-server-service-port --gw-server-service-nodeport --gw-server-service-loadbalancerip --gw-client-address --gw-client-port --mtu --create-resource-slice --resource-slice-class --in-band --proxy-url --create-virtual-node --cpu --memory --pods --resource -n --remote-namespace --remote-kubeconfig --remote-context --remote-cluster --remote-user",
	"unpeer --timeout --wait --delete-namespaces -n --remote-namespace",
	"force unpeer milan --skip-confirm",
	"authenticate --timeout --in-band --proxy-url", "auth", "unauthenticate --timeout --wait", "unauth",
	"offload namespace shop --ns-selector --pod-offloading-strategy --namespace-mapping-strategy --remote-namespace-name -l --selector -o --timeout", "offload ns shop",
	"unoffload namespace shop --ns-selector --timeout --skip-confirm", "unoffload ns shop",
	"create resourceslice mypool --remote-cluster-id --class --cpu --memory --pods --resource --no-virtual-node -o --liqo-namespace", "create rs mypool",
	"create virtualnode mynode --remote-cluster-id --resource-slice-name --kubeconfig-secret-name --cpu --memory --pods --resource --storage-classes --ingress-classes --load-balancer-classes --labels --node-selector --runtime-class-name --vk-options-template --create-node --disable-network-check -o", "create vn mynode",
	"create nonce --remote-cluster-id -o", "get nonce --remote-cluster-id", "get kubeconfig controlplane-milan --remote-cluster-id", "get kc x",
	"generate tenant --remote-cluster-id --nonce --remote-tenant-namespace --proxy-url -o", "generate identity --remote-cluster-id --remote-tenant-namespace -o",
	"generate peering-user --consumer-cluster-id --tls-compatibility-mode", "delete peering-user --consumer-cluster-id", "delete virtualnode mynode",
	"cordon tenant rome --timeout --skip-confirm", "uncordon tenant rome --timeout", "cordon resourceslice mypool --remote-cluster-id", "cordon rs mypool", "uncordon resourceslice mypool --remote-cluster-id",
	"drain tenant rome --timeout --skip-confirm", "activate tenant rome --timeout",
	"info -o -g --get", "info peer milan -o -g --get", "move volume data -n --target-node --containers-cpu-requests --containers-ram-limits --restic-image --restic-server-image", "move pvc data",
	"version --client", "install --set reflection.secret.type=AllowList", "upgrade", "uninstall --purge", "network connect --wait", "network reset", "test network --basic",
	"create configuration c", "create gatewayserver s", "create gatewayclient c", "create publickey k", "generate configuration", "generate publickey", "delete publickey k",
}

// globalFlags are those of every command of the reference's client.
var globalFlags = []string{"--kubeconfig", "--context", "--cluster", "--user", "-v", "--verbose", "--skip-confirm", "--global-labels", "--global-annotations"}

// TestTheCommandsOfTheReferenceAreKnown finds each command and each flag of the reference, or a
// reason why it is refused.
func TestTheCommandsOfTheReferenceAreKnown(t *testing.T) {
	for _, line := range append(documentLines(t), referenceCommands...) {
		t.Run(line, func(t *testing.T) {
			root := command(nil)
			words := strings.Fields(line)
			if words[0] != "install" && words[0] != "version" {
				words = append(words, globalFlags...)
			}
			found, _, err := root.Find(words)
			require.NoError(t, err)
			require.NotEqual(t, root, found, "the command does not exist")
			if found.Hidden {
				root.SetArgs(words)
				err := root.Execute()
				code, message := output.ExitCode(err)
				assert.Equal(t, 2, code)
				assert.NotEmpty(t, message)
				return
			}
			require.True(t, found.Runnable(), "%q is not a command", found.CommandPath())
			for _, word := range words {
				if name, ok := strings.CutPrefix(word, "--"); ok {
					name, _, _ = strings.Cut(name, "=")
					assert.NotNil(t, found.Flag(name), "flag --%s", name)
				} else if name, ok := strings.CutPrefix(word, "-"); ok {
					assert.NotNil(t, found.Flags().ShorthandLookup(name), "flag -%s", name)
				}
			}
		})
	}
}

// documentLines returns the command lines in the reference's documents.
func documentLines(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "reference-command-lines.txt"))
	require.NoError(t, err)
	var lines []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	require.NotEmpty(t, lines)
	return lines
}

// TestFlagsWithoutAMeaningAreRefused sets flags of the reference.
func TestFlagsWithoutAMeaningAreRefused(t *testing.T) {
	for line, want := range map[string]string{
		"peer --gw-server-service-port 51840":                 "no networking module",
		"peer --in-band":                                      "set --proxy-url",
		"unpeer --wait=false":                                 "the command always waits",
		"generate peering-user --tls-compatibility-mode true": "always Ed25519",
		"move volume data --restic-image x":                   "without restic",
		"install --cluster-id rome":                           "helm install",
		"peer --global-labels team=shop":                      "kubectl label",
		"create resourceslice a --global-annotations a=b":     "kubectl annotate",
		"peer --skip-validation --skip-confirm --in-band=false --networking-disabled unexpected": "unknown command",
		"get nonce -o table":       "unknown shorthand flag",
		"create nonce -o table":    `"table" is none of json, yaml`,
		"unpeer --wait unexpected": "unknown command",
	} {
		t.Run(line, func(t *testing.T) {
			root := command(nil)
			root.SetArgs(strings.Fields(line))
			code, message := output.ExitCode(root.Execute())
			assert.Equal(t, 2, code)
			assert.Contains(t, message, want)
		})
	}
}
