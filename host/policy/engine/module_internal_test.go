package engine

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/policy/encode"
	"github.com/longshore-dev/longshore/host/policy/fuel"
)

// counter is a guest with memory that answers with how often it was called.
func counter(t *testing.T) []byte {
	t.Helper()
	w := []byte{encode.I64}
	m := &encode.Module{}
	alloc := m.Import(extismModule, "alloc", w, w)
	store := m.Import(extismModule, "store_u64", []byte{encode.I64, encode.I64}, nil)
	output := m.Import(extismModule, "output_set", []byte{encode.I64, encode.I64}, nil)
	m.Memory(1, 1)
	zero, load, add, put := encode.Const32(0), []byte{0x29, 3, 0}, byte(0x7c), []byte{0x37, 3, 0}
	m.Export("count", encode.Function, m.Func(nil, nil, w,
		zero, zero, load, encode.Const64(1), add, put,
		encode.Const64(8), encode.Call(alloc), encode.Set(0),
		encode.Get(0), zero, load, encode.Call(store),
		encode.Get(0), encode.Const64(8), encode.Call(output)))
	parsed, err := fuel.Parse(m.Bytes())
	require.NoError(t, err)
	metered, err := parsed.Meter(fuel.Names{Fuel: FuelExport, Stack: StackExport, RefuelModule: RefuelModule, Refuel: RefuelFunction, Globals: GlobalExports, Memory: MemoryExport, Start: StartExport})
	require.NoError(t, err)
	return metered.Wasm
}

func count(t *testing.T, m *Module) {
	t.Helper()
	answer, _, err := m.Call(t.Context(), "count", nil)
	require.NoError(t, err)
	assert.Equal(t, []byte{1, 0, 0, 0, 0, 0, 0, 0}, answer, "each call is the first")
}

// rested returns a module with as many instances as it may have, one of which was used
// and waits to be set back. Who was about to set instances back may still do so.
func withUsedInstance(t *testing.T) (*Engine, *Module) {
	t.Helper()
	e, err := New(t.Context(), Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, e.Close(context.WithoutCancel(t.Context()))) })
	m, err := e.Compile(t.Context(), "counter", counter(t), Limits{})
	require.NoError(t, err)
	require.NoError(t, m.Warm(t.Context()))
	require.Eventually(t, func() bool {
		_, _, err := m.Call(t.Context(), "count", nil)
		return err == nil && len(m.slots) == cap(m.slots)
	}, time.Minute, time.Millisecond, "calls, one after the other, make instances")
	require.NoError(t, m.addUser())
	i, err := m.acquire(t.Context())
	require.NoError(t, err)
	_, failed := i.call("count", nil)
	require.Nil(t, failed)
	m.used <- i
	return e, m
}

func TestUsedInstancesWaitForOthers(t *testing.T) {
	t.Run("a call that finds no other one sets one back itself", func(t *testing.T) {
		_, m := withUsedInstance(t)
		for range 10 * cap(m.idle) {
			count(t, m)
		}
		assert.Equal(t, cap(m.slots), m.Pool().Instances)
		assert.Zero(t, m.Pool().Dropped)
	})
	t.Run("a trim sets them back", func(t *testing.T) {
		e, m := withUsedInstance(t)
		e.Trim()
		assert.Empty(t, m.used)
		require.Eventually(t, func() bool { e.Trim(); return m.Pool().Instances == 1 && m.users.Load() == 1 },
			time.Minute, time.Millisecond, "nothing was asked in between")
		count(t, m)
	})
	t.Run("the end of the module sets them back, so that it is freed", func(t *testing.T) {
		_, m := withUsedInstance(t)
		require.NoError(t, m.Close(t.Context()))
		assert.Empty(t, m.used)
		require.Eventually(t, func() bool { return m.users.Load() == 0 }, time.Minute, time.Millisecond)
	})
	t.Run("and so does a call that ends later", func(t *testing.T) {
		_, m := withUsedInstance(t)
		require.NoError(t, m.addUser())
		late, err := m.acquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, m.Close(t.Context()))
		m.release(late, true)
		require.Eventually(t, func() bool { return m.users.Load() == 0 }, time.Minute, time.Millisecond)
	})
}
