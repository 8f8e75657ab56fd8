package suite_test

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	builtinpolicies "github.com/longshore-dev/longshore/builtin-policies"
	"github.com/longshore-dev/longshore/builtin-policies/defaults"
	"github.com/longshore-dev/longshore/conformance/suite"
	"github.com/longshore-dev/longshore/conformance/vectors"
	"github.com/longshore-dev/longshore/host/policy/module"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// builtinModule returns the module that `make builtins` built, compressed.
func builtinModule(tb testing.TB) []byte {
	tb.Helper()
	packed, err := builtinpolicies.Module()
	require.NoError(tb, err)
	return packed
}

// longshore loads the built-in policies in our host.
func longshore(tb testing.TB) *suite.Longshore {
	tb.Helper()
	host, err := suite.NewLongshore(tb.Context(), builtinModule(tb), suite.Options{CacheDir: tb.TempDir()})
	require.NoError(tb, err)
	tb.Cleanup(func() { assert.NoError(tb, host.Close(context.WithoutCancel(tb.Context()))) })
	return host
}

// oracle loads the built-in policies in stock extism/go-sdk.
func oracle(tb testing.TB) *suite.Oracle {
	tb.Helper()
	wasm, err := module.Unpack(builtinModule(tb))
	require.NoError(tb, err)
	host, err := suite.NewOracle(tb.Context(), wasm)
	require.NoError(tb, err)
	tb.Cleanup(func() { assert.NoError(tb, host.Close(context.WithoutCancel(tb.Context()))) })
	return host
}

// checkAll holds a host against every vector. The native functions are held against
// them in conformance/vectors: three ways, one truth.
func checkAll(t *testing.T, host suite.Host) {
	t.Helper()
	all, err := vectors.All()
	require.NoError(t, err)
	for i := range all {
		t.Run(all[i].Name, func(t *testing.T) {
			assert.NoError(t, suite.Check(t.Context(), host, &all[i]))
		})
	}
}

func TestBuiltinsInStockExtism(t *testing.T) {
	host := oracle(t)
	output, err := host.Call(t.Context(), contract.ExportDescribe, nil)
	require.NoError(t, err)
	var manifest contract.Manifest
	require.NoError(t, json.Unmarshal(output, &manifest))
	assert.Equal(t, defaults.Manifest(), manifest)
	checkAll(t, host)
}

func TestBuiltinsInLongshore(t *testing.T) {
	host := longshore(t)
	assert.Equal(t, defaults.Manifest(), *host.Manifest())
	checkAll(t, host)
}

// A vector asked after others, in any order, is answered as in a fresh instance.
func TestBuiltinsKeepNothingBetweenCalls(t *testing.T) {
	host := longshore(t)
	all, err := vectors.All()
	require.NoError(t, err)
	for i := len(all) - 1; i >= 0; i-- {
		for range 3 {
			require.NoError(t, suite.Check(t.Context(), host, &all[i]), all[i].Name)
		}
	}
}

// What the two hosts answer is the same, byte by byte.
func TestHostsAnswerTheSameBytes(t *testing.T) {
	ours, stock := longshore(t), oracle(t)
	all, err := vectors.All()
	require.NoError(t, err)
	for i := range all {
		point, err := all[i].Point()
		require.NoError(t, err)
		got, gotErr := ours.Call(t.Context(), point.Export(), all[i].Request)
		want, wantErr := stock.Call(t.Context(), point.Export(), all[i].Request)
		assert.Equal(t, string(want), string(got), all[i].Name)
		assert.Equal(t, wantErr == nil, gotErr == nil, all[i].Name)
	}
}

// The compiled module checks settings as the native code does, in both hosts.
func TestBuiltinsCheckTheirSettings(t *testing.T) {
	for settings, want := range map[string]string{
		`{"version":"v1alpha1","points":["MetadataFilter"],"settings":{"rules":[{"drop":["a/"]}]}}`:  "",
		`{"version":"v1alpha1","settings":null}`:                                                     "",
		`{"version":"v1alpha1","points":["MetadataFilter"],"settings":{"rules":[{"drop":["a b"]}]}}`: `spec.settings.rules[0].drop[0]: "a b" is not a key`,
		`{"version":"v1alpha1","points":["PodMutation"],"settings":{"rules":[{"drop":["a/"]}]}}`:     "the default policy of PodMutation has none",
	} {
		for _, host := range []suite.Host{longshore(t), oracle(t)} {
			output, err := host.Call(t.Context(), contract.ExportValidateSettings, []byte(settings))
			require.NoError(t, err)
			var response contract.SettingsResponse
			require.NoError(t, json.Unmarshal(output, &response))
			assert.Equal(t, want == "", response.Valid, settings)
			assert.Contains(t, response.Message, want)
		}
	}
}

func TestDigestIsTheLocks(t *testing.T) {
	wasm, err := module.Unpack(builtinModule(t))
	require.NoError(t, err)
	assert.Equal(t, "sha256:"+builtinpolicies.Digest(wasm), longshore(t).Digest())
}

// BenchmarkBuiltins measures a decision in our host: encoded request in, encoded
// response out, no projection, no memo.
func BenchmarkBuiltins(b *testing.B) {
	host := longshore(b)
	all, err := vectors.All()
	require.NoError(b, err)
	for i := range all {
		switch all[i].Name {
		case "podmutation/localandremote-product", "offloadingpatch/affinity-both", "antiaffinitypreset/soft", "metadatafilter/default-list", "metadatafilter/rule-rename", "metadatafilter/rules-many":
		default:
			continue
		}
		b.Run(all[i].Name, func(b *testing.B) {
			point, err := all[i].Point()
			require.NoError(b, err)
			var request bytes.Buffer
			require.NoError(b, json.Compact(&request, all[i].Request))
			for b.Loop() {
				if _, err := host.Call(b.Context(), point.Export(), request.Bytes()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
