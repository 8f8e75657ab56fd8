package probes

import (
	"bytes"
	"compress/gzip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/module"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// named loads one probe.
func named(t *testing.T, e *engine.Engine, name string) *module.Module {
	t.Helper()
	return limited(t, e, name, engine.Limits{})
}

// limited is named with other limits.
func limited(t *testing.T, e *engine.Engine, name string, limits engine.Limits) *module.Module {
	t.Helper()
	all, err := All()
	require.NoError(t, err)
	for _, p := range all {
		if p.Name == name {
			m, err := module.Load(t.Context(), e, p.Wasm, module.Options{Name: "probe", Limits: limits})
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, m.Close(t.Context())) })
			return m
		}
	}
	require.Fail(t, "there is no such probe", name)
	return nil
}

// A flood of log lines or of standard error reaches the host cut to the limits.
func TestFloodsAreCut(t *testing.T) {
	var lines []engine.Line
	e := newEngine(t, "", func(l engine.Line) { lines = append(lines, l) })
	_, stats, err := named(t, e, "logflood").Call(t.Context(), contract.PodMutation.Export(), question(LongQuestion, ""))
	require.ErrorIs(t, err, engine.Timeout)
	assert.Len(t, lines, contract.MaxLogLines)
	assert.Greater(t, stats.LogLines, 1000, "the rest is counted")
	assert.Less(t, uint64(stats.LogLines), stats.Ticks, "a line costs more than an iteration of a loop")
	_, _, err = named(t, e, "stderrflood").Call(t.Context(), contract.PodMutation.Export(), question(LongQuestion, ""))
	var failed *engine.CallError
	require.ErrorAs(t, err, &failed)
	assert.Len(t, failed.Stderr, contract.MaxStderrBytes)
}

// Archives that unpack to more than a module may have are given up at the limit.
func TestBombs(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	for range 1024 { // a gigabyte
		_, err := z.Write(make([]byte, 1<<20))
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	require.Less(t, packed.Len(), 2<<20)
	var twice bytes.Buffer
	z = gzip.NewWriter(&twice)
	_, err := z.Write(packed.Bytes())
	require.NoError(t, err)
	require.NoError(t, z.Close())
	e := newEngine(t, "", nil)
	_, err = module.Load(t.Context(), e, packed.Bytes(), module.Options{Name: "probe"})
	require.EqualError(t, err, "loading policy module probe: the unpacked module is larger than 16 MiB; its author must make it smaller (see docs: no k8s.io packages in a guest, -ldflags=-s -w)")
	_, err = module.Load(t.Context(), e, twice.Bytes(), module.Options{Name: "probe"})
	require.ErrorContains(t, err, "not a WebAssembly module")
}
