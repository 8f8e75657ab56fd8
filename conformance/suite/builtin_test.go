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

// builtinModule returns the unpacked module that `make builtins` built.
func builtinModule() ([]byte, error) {
	packed, err := builtinpolicies.Module()
	if err != nil {
		return nil, err
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
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
	wasm, err := builtinModule()
	require.NoError(t, err)
	oracle, err := suite.NewOracle(t.Context(), wasm)
	require.NoError(t, err)
	defer func() { assert.NoError(t, oracle.Close(t.Context())) }()
	checkDescribe(t, oracle)
	checkAll(t, oracle)
}
