package suite_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/conformance/guests"
	"github.com/longshore-dev/longshore/conformance/guests/toolchain"
	"github.com/longshore-dev/longshore/conformance/suite"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// buildPlugin compiles an example policy.
func buildPlugin(t *testing.T, name string) []byte {
	t.Helper()
	if testing.Short() {
		t.Skip("compiles for wasip1")
	}
	wasm, err := guests.BuildFolder(t.Context(), filepath.Join("..", "..", "plugins", name))
	toolchain.Need(t, err)
	return wasm
}

func TestRegistryRewriteInBothHosts(t *testing.T) {
	wasm := buildPlugin(t, "registryrewrite")
	ours, err := suite.NewLongshore(t.Context(), wasm, t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, ours.Close(context.WithoutCancel(t.Context()))) })
	stock, err := suite.NewOracle(t.Context(), wasm)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, stock.Close(context.WithoutCancel(t.Context()))) })

	request := `{"version":"v1alpha1","point":"PodMutation","moment":"Offload",` +
		`"settings":{"rewrites":[{"from":"docker.io","to":"mirror.example"}]},` +
		`"facts":{"object":{"spec":{"containers":[{"name":"web","image":"team/web:1"},{"name":"log","image":"quay.io/team/log"}]}}}}`
	misspelled := `{"version":"v1alpha1","point":"PodMutation","moment":"Offload","settings":{"rewrite":[]},"facts":{}}`
	for name, host := range map[string]suite.Host{"longshore": ours, "extism": stock} {
		t.Run(name, func(t *testing.T) {
			output, err := host.Call(t.Context(), contract.PodMutation.Export(), []byte(request))
			require.NoError(t, err)
			assert.JSONEq(t, `{"version":"v1alpha1","operations":[`+
				`{"op":"set","path":"/spec/containers[name=web]/image","value":"mirror.example/team/web:1"}]}`, string(output))

			_, err = host.Call(t.Context(), contract.PodMutation.Export(), []byte(misspelled))
			require.ErrorContains(t, err, "spec.settings.rewrite: unknown field, want rewrites")

			output, err = host.Call(t.Context(), contract.ExportValidateSettings, []byte(`{"version":"v1alpha1","settings":{}}`))
			require.NoError(t, err)
			var response contract.SettingsResponse
			require.NoError(t, json.Unmarshal(output, &response))
			assert.False(t, response.Valid)
			assert.Contains(t, response.Message, "rewrites is empty")
		})
	}
}
