package engine_test

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	extism "github.com/extism/go-sdk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"

	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// oracleCache keeps what extism compiled, for the other tests.
var oracleCache = wazero.NewCompilationCache()

// oracle is the same module, as its author built it, in stock extism/go-sdk.
func oracle(tb testing.TB, wasm []byte) *extism.Plugin {
	tb.Helper()
	if testing.Short() {
		tb.Skip("extism/go-sdk compiles without a cache on disk")
	}
	config := extism.PluginConfig{EnableWasi: true, RuntimeConfig: wazero.NewRuntimeConfig().WithCompilationCache(oracleCache)}
	p, err := extism.NewPlugin(tb.Context(), extism.Manifest{Wasm: []extism.Wasm{extism.WasmData{Data: wasm}}}, config, nil)
	require.NoError(tb, err)
	tb.Cleanup(func() { p.Close(tb.Context()) })
	return p
}

func TestSameAnswersAsExtism(t *testing.T) {
	long := strings.Repeat("{\"key\":\"välue\"}", 777)
	tests := map[string]struct {
		wasm   []byte
		export string
		inputs []string
	}{
		"a hand-written guest": {small().Bytes(), "echo", []string{"x", "12345678", "123456789", long}},
		"a Go guest": {probe(t), "probe", []string{
			"x", "12345678", long, "goroutines", "variables", "lengths", "stderr text", "log text", "fail the cause", "failzero the cause",
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ours, theirs := compile(t, tc.wasm, engine.Limits{}), oracle(t, tc.wasm)
			for _, input := range tc.inputs {
				got, _, gotErr := ours.Call(t.Context(), tc.export, []byte(input))
				_, want, wantErr := theirs.Call(tc.export, []byte(input))
				if wantErr != nil {
					require.Error(t, gotErr, input)
					assert.ErrorContains(t, gotErr, wantErr.Error())
					continue
				}
				require.NoError(t, gotErr, input)
				assert.Equal(t, string(want), string(got), input)
			}
		})
	}
}

// The intended differences: our host is stricter.
func TestWhereExtismFailsOpen(t *testing.T) {
	wasm := probe(t)
	ours := compile(t, wasm, engine.Limits{})
	for _, input := range []string{"exit0", "silent", "rangewrap"} {
		status, _, err := oracle(t, wasm).Call("probe", []byte(input))
		t.Logf("extism, %s: status %d, error %v", input, status, err)
		_, _, err = ours.Call(t.Context(), "probe", []byte(input))
		require.ErrorIs(t, err, engine.BadOutput, input)
	}
	_, _, err := oracle(t, wasm).Call("probe", []byte("exit0"))
	require.NoError(t, err, "extism takes exit 0 for success")
}

// builtin is the compiled module of the default policies.
func builtin(tb testing.TB) []byte {
	tb.Helper()
	f, err := os.Open(filepath.FromSlash("../../../builtin-policies/dist/builtin.wasm.gz"))
	if errors.Is(err, os.ErrNotExist) {
		tb.Skip("the built-in module is not compiled: run make builtins")
	}
	require.NoError(tb, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(tb, err)
	wasm, err := io.ReadAll(z)
	require.NoError(tb, err)
	return wasm
}

// vectorFile is the part of a conformance vector that this package reads.
type vectorFile struct {
	Policy  string
	Request json.RawMessage
}

func readVector(t *testing.T, file string) vectorFile {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	var v vectorFile
	require.NoError(t, json.Unmarshal(data, &v))
	return v
}

// The built-in policies answer every vector of theirs with the same bytes in both hosts, and
// with the same bytes and ticks again.
func TestBuiltinsAnswerLikeInExtism(t *testing.T) {
	wasm := builtin(t)
	ours, theirs := compile(t, wasm, engine.Limits{}), oracle(t, wasm)
	files, err := filepath.Glob(filepath.FromSlash("../../../conformance/vectors/*/*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		if readVector(t, file).Policy != "" {
			continue // Another policy answers.
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			v := readVector(t, file)
			var request contract.Request
			require.NoError(t, json.Unmarshal(v.Request, &request))
			point := request.Point
			got, stats, gotErr := ours.Call(t.Context(), point.Export(), v.Request)
			_, want, wantErr := theirs.Call(point.Export(), v.Request)
			if wantErr != nil {
				require.ErrorContains(t, gotErr, wantErr.Error())
				return
			}
			require.NoError(t, gotErr)
			assert.Equal(t, string(want), string(got))
			again, statsAgain, err := ours.Call(t.Context(), point.Export(), v.Request)
			require.NoError(t, err)
			assert.Equal(t, string(got), string(again))
			assert.Equal(t, stats.Ticks, statsAgain.Ticks)
		})
	}
}
