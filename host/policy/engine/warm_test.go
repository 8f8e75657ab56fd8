package engine_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/policy/encode"
	"github.com/longshore-dev/longshore/host/policy/engine"
)

// counting is a module whose function "f" answers with the number of its calls.
func counting(t *testing.T) *engine.Module {
	t.Helper()
	m := &encode.Module{}
	m.Global(encode.I32, true, encode.Const32(0))
	m.Export("f", encode.Function, answering(m,
		encode.GlobalGet(0), encode.Const32(1), 0x6a, encode.GlobalSet(0), encode.GlobalGet(0)))
	return compile(t, m.Bytes(), engine.Limits{Instances: 1})
}

func TestAWarmUpEndsWithItsContext(t *testing.T) {
	m := counting(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := m.Warm(ctx, engine.Sample{Export: "f"})
	require.ErrorIs(t, err, context.Canceled)
	assert.False(t, engine.AtFault(err), "the module is not the cause")
	output, _, err := m.Call(t.Context(), "f", nil)
	require.NoError(t, err)
	assert.Equal(t, []byte{1, 0}, output[:2])
}

func TestCallsBeginInTheStateAfterTheWarmUp(t *testing.T) {
	m := counting(t)
	require.NoError(t, m.Warm(t.Context(), engine.Sample{Export: "f"}, engine.Sample{Export: "absent"}, engine.Sample{Export: "f"}))
	for range 2 {
		output, _, err := m.Call(t.Context(), "f", nil)
		require.NoError(t, err)
		assert.Equal(t, []byte{3, 0}, output[:2], "two samples, and the call")
	}
	assert.Zero(t, m.Pool().Dropped)
}
