package suite_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/longshore-dev/longshore/conformance/guests"
	"github.com/longshore-dev/longshore/conformance/guests/toolchain"
	"github.com/longshore-dev/longshore/conformance/suite"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
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
	ours, err := suite.NewLongshore(t.Context(), wasm, suite.Options{CacheDir: t.TempDir()})
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

// Each SDK has a function for validate_settings, and one of the plugins uses it.
func TestSettingsAreCheckedInEveryLanguage(t *testing.T) {
	for plugin, want := range map[string]string{
		"residency":    "spec.settings.misspelled: unknown field, want default",
		"gpupool":      "spec.settings: unknown field, want pools",
		"spreadpreset": "spec.settings: this policy has none",
		"secretguard":  "spec.settings.misspelled: unknown field, want types, names or keys",
	} {
		t.Run(plugin, func(t *testing.T) {
			host, err := suite.NewOracle(t.Context(), buildPlugin(t, plugin))
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, host.Close(context.WithoutCancel(t.Context()))) })
			output, err := host.Call(t.Context(), contract.ExportValidateSettings, []byte(`{"version":"v1alpha1","settings":{"misspelled":true}}`))
			require.NoError(t, err)
			var response contract.SettingsResponse
			require.NoError(t, json.Unmarshal(output, &response))
			assert.Equal(t, contract.SettingsResponse{Version: "v1alpha1", Message: want}, response)

			for name, input := range map[string]string{"not JSON": `{"version":`, "not an object": `[]`} {
				_, err := host.Call(t.Context(), contract.ExportValidateSettings, []byte(input))
				assert.Error(t, err, name)
			}
		})
	}
}

// The spec beside a plugin has settings that it accepts.
func TestThePluginsAcceptTheSettingsOfTheirSpecs(t *testing.T) {
	specs, err := filepath.Glob("../../plugins/*/policy.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, specs)
	for _, file := range specs {
		name := filepath.Base(filepath.Dir(file))
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			var spec policyv1alpha1.OffloadingPolicySpec
			require.NoError(t, yaml.UnmarshalStrict(data, &spec))
			settings := []byte("null")
			if spec.Settings != nil {
				settings = spec.Settings.Raw
			}
			host, err := suite.NewOracle(t.Context(), buildPlugin(t, name))
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, host.Close(context.WithoutCancel(t.Context()))) })
			output, err := host.Call(t.Context(), contract.ExportValidateSettings, []byte(`{"version":"v1alpha1","settings":`+string(settings)+`}`))
			require.NoError(t, err)
			assert.JSONEq(t, `{"version":"v1alpha1","valid":true}`, string(output))
		})
	}
}
