package fuel_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/policy/encode"
)

// What an engine that validates a module keeps for each function is bounded before it is asked.
func TestBoundsOfFunctions(t *testing.T) {
	types := func(n int) []byte { return bytes.Repeat([]byte{encode.I64}, n) }
	code := func(does ...any) []byte { return encode.Code(0, 0, encode.Code(does...), 0x0b) } // unreachable
	locals := func(m *encode.Module, functions, each int) {
		for range functions {
			m.RawFunc(nil, nil, encode.Code(1, encode.Uleb(uint64(each)), encode.I64, 0x0b))
		}
	}
	for name, tc := range map[string]struct {
		build func(*encode.Module)
		want  string
	}{
		"as many local variables as there may be": {build: func(m *encode.Module) { locals(m, 40, 50_000) }},
		"one more":                 {func(m *encode.Module) { locals(m, 40, 50_000); locals(m, 1, 1) }, "the functions have more than 2000000 local variables"},
		"too many in one function": {func(m *encode.Module) { locals(m, 1, 50_001) }, "a function has 50001 local variables, more than 50000"},
		"as many values as may be passed by calls": {build: func(m *encode.Module) {
			m.RawFunc(nil, nil, code(slices.Repeat(encode.Call(m.RawFunc(types(50), types(50), code())), 500)))
		}},
		"one call more": {func(m *encode.Module) {
			m.RawFunc(nil, nil, code(slices.Repeat(encode.Call(m.RawFunc(types(50), types(50), code())), 501)))
		}, "the blocks and calls of a function pass more than 50000 values: split it up"},
		"indirect calls": {func(m *encode.Module) {
			m.Table(1, 1)
			m.RawFunc(types(50), types(50), code())
			m.RawFunc(nil, nil, code(slices.Repeat([]byte{0x11, 0, 0}, 501)))
		}, "pass more than 50000 values"},
		"blocks": {func(m *encode.Module) {
			m.RawFunc(types(50), types(50), code(slices.Repeat([]byte{0x02, 0, 0x0b}, 501)))
		}, "pass more than 50000 values"},
		"each function by itself": {build: func(m *encode.Module) {
			for range 3 {
				m.RawFunc(types(50), types(50), code(slices.Repeat([]byte{0x02, 0, 0x0b}, 500)))
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m := &encode.Module{}
			tc.build(m)
			_, err := rewrite(m.Bytes())
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, tc.want)
		})
	}
}
