package engine_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/policy/encode"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/fuel"
)

func TestPartsOfATickAreTheMeters(t *testing.T) { assert.Equal(t, fuel.Parts, engine.FuelParts) }

// Functions of the kernel and of the host cost something each time, however a guest calls
// them, and what they do with long data costs more.
func TestCallsOfTheHostCost(t *testing.T) {
	w, word := []byte{encode.I64}, []byte{encode.I32}
	m := &encode.Module{}
	length := m.Import("extism:host/env", "length", w, w)
	inputLength := m.Import("extism:host/env", "input_length", nil, w)
	alloc := m.Import("extism:host/env", "alloc", w, w)
	varGet := m.Import("extism:host/env", "var_get", w, w)
	varSet := m.Import("extism:host/env", "var_set", []byte{encode.I64, encode.I64}, nil)
	clock := m.Import("wasi_snapshot_preview1", "clock_time_get", []byte{encode.I32, encode.I64, encode.I32}, word)
	m.Memory(1, 1)
	m.Table(1, 1)
	m.Element(0, encode.Const32(0), 0x0b, encode.List([][]byte{encode.Uleb(uint64(inputLength))}))
	const calls, key = 2000, 64 << 10
	straight := func(name string, code ...any) {
		m.Export(name, encode.Function, m.Func(nil, nil, nil, slices.Repeat(encode.Code(code...), calls)))
	}
	straight("length", encode.Const64(100), encode.Call(length), 0x1a)
	straight("input_length", encode.Call(inputLength), 0x1a)
	straight("alloc", encode.Const64(0), encode.Call(alloc), 0x1a)
	straight("through a table", encode.Const32(0), 0x11, 1, 0, 0x1a)
	straight("a clock", encode.Const32(0), encode.Const64(0), encode.Const32(8), encode.Call(clock), 0x1a)
	m.Export("long keys", encode.Function, m.Func(nil, nil, w, encode.Const64(key), encode.Call(alloc), encode.Set(0),
		slices.Repeat(encode.Code(encode.Get(0), encode.Call(varGet), 0x1a), calls)))
	m.Export("long values", encode.Function, m.Func(nil, nil, w, encode.Const64(key), encode.Call(alloc), encode.Set(0),
		slices.Repeat(encode.Code(encode.Get(0), encode.Get(0), encode.Call(varSet)), calls)))
	guest := compile(t, m.Bytes(), engine.Limits{})
	for export, least := range map[string]uint64{
		"length": calls / 600, "input_length": calls / 600, "alloc": calls / 600, "through a table": calls / 4, "a clock": calls / 12,
		"long keys": calls * key / 2048 / 12, "long values": calls * 2 * key / 2048 / 12,
	} {
		t.Run(export, func(t *testing.T) {
			_, stats, err := guest.Call(t.Context(), export, nil)
			require.Error(t, err, "they answer nothing")
			assert.GreaterOrEqual(t, stats.Ticks, least)
		})
	}
}
