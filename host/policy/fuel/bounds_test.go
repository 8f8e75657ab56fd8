package fuel_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/policy/encode"
	"github.com/longshore-dev/longshore/host/policy/fuel"
)

// wide is a function with n local variables and some code.
func wide(n int, code ...any) []byte {
	return encode.Code(1, encode.Uleb(uint64(n)), encode.I64, encode.Code(code...), 0x0b)
}

func types(n int) []byte { return bytes.Repeat([]byte{encode.I64}, n) }

func TestCheckBounds(t *testing.T) {
	branch := []byte{0x41, 0, 0x0d, 0} // br_if out of the function
	module := func(does func(*encode.Module)) []byte {
		m := &encode.Module{}
		m.Import("extism:host/env", "reset", nil, nil)
		does(m)
		return m.Bytes()
	}
	for name, tc := range map[string]struct {
		module []byte
		want   string
	}{
		"a function": {module: module(func(m *encode.Module) { m.RawFunc(nil, nil, wide(100, branch)) })},
		"many branches and many local variables": {module(func(m *encode.Module) {
			m.RawFunc(nil, nil, wide(1))
			m.RawFunc(nil, nil, wide(2000, slices.Repeat(branch, 1001)))
		}), "function 2 has 1001 branches and 2000 local variables, more than 2000000 when multiplied: split it up"},
		"as many as there may be": {module: module(func(m *encode.Module) { m.RawFunc(nil, nil, wide(2000, slices.Repeat(branch, 1000))) })},
		"a table of branches": {module(func(m *encode.Module) {
			m.RawFunc(nil, nil, wide(500, 0x41, 0, 0x0e, encode.Uleb(5000), bytes.Repeat([]byte{0}, 5001)))
		}), "function 1 has 5001 branches and 500 local variables"},
		"a type with many parameters": {module(func(m *encode.Module) { m.RawFunc(types(129), nil, wide(0)) }),
			"type 1 has 129 parameters and results, more than 128: pass them in memory"},
		"a type with many results": {module(func(m *encode.Module) { m.RawFunc(types(100), types(100), wide(0, 0)) }),
			"type 1 has 200 parameters and results"},
		"many types": {module(func(m *encode.Module) {
			for i := range 500 {
				params := types(120)
				params[i%120], params[i/120] = encode.F64, encode.I32
				m.RawFunc(params, nil, wide(0))
			}
		}), "the types have more than 50000 parameters and results: use fewer types"},
		"many functions and globals": {module(func(m *encode.Module) {
			for range 9000 {
				m.Global(encode.I64, false, encode.Const64(0))
			}
			for range 6000 {
				m.RawFunc(nil, nil, wide(0))
			}
		}), "6000 functions times 9001 types, globals and exports is more than 50000000: use fewer of them"},
		"many calls and globals": {module(func(m *encode.Module) {
			for range 1000 {
				m.Global(encode.I64, true, encode.Const64(0))
			}
			m.RawFunc(nil, nil, wide(0, slices.Repeat(encode.Call(0), 400)))
		}), "function 1 has 400 calls in a module with 1001 mutable globals, more than 400000 when multiplied: split it up"},
		"many values passed by calls": {module(func(m *encode.Module) {
			f := m.RawFunc(types(60), types(60), wide(0, 0))
			m.RawFunc(nil, nil, wide(0, 0, slices.Repeat(encode.Call(f), 420)))
		}), "function 2 passes 50400 values to blocks and calls, more than 50000: split it up"},
		"many values passed by branches": {module(func(m *encode.Module) {
			m.RawFunc(nil, types(60), wide(0, 0, slices.Repeat(branch, 1000)))
		}), "function 1 passes 60000 values to blocks and calls"},
		"many values passed to blocks": {module(func(m *encode.Module) {
			m.RawFunc(types(60), types(60), wide(0, 0, slices.Repeat([]byte{0x02, 1, 0x0b}, 500)))
		}), "function 1 passes 60000 values to blocks and calls"},
		"code that is not valid is judged by others": {module: module(func(m *encode.Module) { m.RawFunc(nil, nil, wide(0, 0x0b, 0xff)) })},
	} {
		t.Run(name, func(t *testing.T) {
			checkBounds(t, tc.module, tc.want)
		})
	}
}

// Bounds of all functions together.
func TestCheckBoundsOfTheModule(t *testing.T) {
	module := func(does func(*encode.Module)) []byte {
		m := &encode.Module{}
		m.Import("extism:host/env", "reset", nil, nil)
		does(m)
		return m.Bytes()
	}
	for name, tc := range map[string]struct {
		module []byte
		want   string
	}{
		"many local variables in all": {module(func(m *encode.Module) {
			for range 41 {
				m.RawFunc(nil, nil, wide(48_781))
			}
		}), "the functions have more than 2000000 local variables: use fewer of them"},
		"as many local variables in all as there may be": {module: module(func(m *encode.Module) {
			for range 40 {
				m.RawFunc(nil, nil, wide(50_000))
			}
		})},
		"many functions and exports": {module(func(m *encode.Module) {
			for i := range 9000 {
				m.Export(fmt.Sprint(i), encode.Function, 1)
			}
			for range 6000 {
				m.RawFunc(nil, nil, wide(0))
			}
		}), "6000 functions times 9001 types, globals and exports is more than 50000000: use fewer of them"},
	} {
		t.Run(name, func(t *testing.T) {
			checkBounds(t, tc.module, tc.want)
		})
	}
}

func checkBounds(t *testing.T, wasm []byte, want string) {
	t.Helper()
	m, err := fuel.Parse(wasm)
	require.NoError(t, err)
	_, err = m.CheckBounds()
	if want == "" {
		assert.NoError(t, err)
		return
	}
	assert.ErrorContains(t, err, want)
}

func TestTheHeaviestFunctionIsNamed(t *testing.T) {
	m := &encode.Module{}
	m.RawFunc(nil, nil, wide(3))
	m.RawFunc(nil, nil, wide(1000, slices.Repeat([]byte{0x41, 0, 0x0d, 0}, 10)))
	m.RawFunc(nil, nil, wide(2))
	parsed, err := fuel.Parse(m.Bytes())
	require.NoError(t, err)
	heaviest, err := parsed.CheckBounds()
	require.NoError(t, err)
	assert.Equal(t, "function 1 with 45 bytes, 10 branches and 1000 local variables", heaviest)
}

// Whatever the bytes are: no panic, and no answer that a second look would not give.
func FuzzCheckBounds(f *testing.F) {
	m := &encode.Module{}
	m.RawFunc(types(2), types(2), wide(1, 0x20, 0, 0x20, 1, 0x02, 0, 0x41, 0, 0x0e, 1, 0, 0, 0x0b))
	f.Add(m.Bytes())
	f.Fuzz(func(t *testing.T, wasm []byte) {
		parsed, err := fuel.Parse(wasm)
		if err != nil {
			return
		}
		first, err := parsed.CheckBounds()
		second, again := parsed.CheckBounds()
		assert.Equal(t, first, second)
		assert.Equal(t, err, again)
	})
}
