package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/policy/encode"
	"github.com/longshore-dev/longshore/host/policy/engine"
)

// slow is a module whose function "f" answers with the number of its calls, after some hundredths of
// a second.
func slow(t *testing.T) *engine.Module {
	t.Helper()
	m := &encode.Module{}
	m.Global(encode.I32, true, encode.Const32(0))
	m.Global(encode.I32, true, encode.Const32(0))
	m.Export("f", encode.Function, answering(m,
		encode.Const32(10_000_000), encode.GlobalSet(1),
		0x03, 0x40, encode.GlobalGet(1), encode.Const32(1), 0x6b, encode.GlobalSet(1), encode.GlobalGet(1), 0x0d, 0, 0x0b,
		encode.GlobalGet(0), encode.Const32(1), 0x6a, encode.GlobalSet(0), encode.GlobalGet(0)))
	return compile(t, m.Bytes(), engine.Limits{Fuel: 1 << 50, StartFuel: 1 << 50, Time: time.Hour, Instances: 1})
}

// A module whose calls are slow, and need little fuel for their time, is loaded soon. What it has
// done until then depends on the speed of the machine, so calls begin in the state after its start.
func TestLongAWarmUpThatTakesTooLongEnds(t *testing.T) {
	m := slow(t)
	began := threadTime(t)
	require.NoError(t, m.Warm(t.Context(), engine.Sample{Export: "f"}))
	assert.Less(t, threadTime(t)-began, 5*time.Second)
	for range 2 {
		output, _, err := m.Call(t.Context(), "f", nil)
		require.NoError(t, err)
		assert.Equal(t, []byte{1, 0}, output[:2], "the call is the first")
	}
	assert.Equal(t, engine.Pool{Idle: 1, Instances: 1, Dropped: 1}, m.Pool())
}

func TestAWarmUpEndsWithItsContext(t *testing.T) {
	m := slow(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := m.Warm(ctx, engine.Sample{Export: "f"})
	require.ErrorIs(t, err, context.Canceled)
	assert.False(t, engine.AtFault(err), "the module is not the cause")
	output, _, err := m.Call(t.Context(), "f", nil)
	require.NoError(t, err)
	assert.Equal(t, []byte{1, 0}, output[:2])
}
