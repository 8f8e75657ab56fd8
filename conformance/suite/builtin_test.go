package suite_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	builtinpolicies "github.com/longshore-dev/longshore/builtin-policies"
	"github.com/longshore-dev/longshore/builtin-policies/defaults"
	"github.com/longshore-dev/longshore/conformance/suite"
	"github.com/longshore-dev/longshore/conformance/vectors"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// builtins returns the compressed module that `make builtins` built.
func builtins(t *testing.T) []byte {
	t.Helper()
	packed, err := builtinpolicies.Module()
	require.NoError(t, err)
	return packed
}

func unpack(t *testing.T, packed []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(packed))
	require.NoError(t, err)
	wasm, err := io.ReadAll(r)
	require.NoError(t, err)
	return wasm
}

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

func checkDescribe(t *testing.T, host suite.Host) {
	t.Helper()
	output, err := host.Call(t.Context(), contract.ExportDescribe, nil)
	require.NoError(t, err)
	var got contract.Manifest
	require.NoError(t, json.Unmarshal(output, &got))
	assert.Equal(t, defaults.Manifest(), got)
}

func TestBuiltinsInStockExtism(t *testing.T) {
	oracle, err := suite.NewOracle(t.Context(), unpack(t, builtins(t)))
	require.NoError(t, err)
	defer func() { assert.NoError(t, oracle.Close(t.Context())) }()
	checkDescribe(t, oracle)
	checkAll(t, oracle)
}
