package wat_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/longshore-dev/longshore/conformance/wat"
)

func instantiate(t *testing.T, text string) api.Module {
	t.Helper()
	wasm, err := wat.Assemble(text)
	require.NoError(t, err)
	runtime := wazero.NewRuntime(t.Context())
	m, err := runtime.Instantiate(t.Context(), wasm)
	require.NoError(t, err)
	return m
}

func TestAssembledCodeRuns(t *testing.T) {
	m := instantiate(t, `(module ;; a comment (with parentheses
  (type $unary (func (param i32) (result i32)))
  (memory (export "memory") 1 2)
  (table 2 funcref)
  (elem (i32.const 0) $double $square)
  (global $calls (mut i32) (i32.const 0))
  (export "calls" (global $calls))
  (data (i32.const 8) "ab\22\\" "\ff\n")
  (data $passive "xyz")
  (func $double (param $n i32) (result i32) (i32.shl (local.get $n) (i32.const 1)))
  (func $square (param $n i32) (result i32) local.get $n local.get $n i32.mul)
  (func (export "apply") (param $f i32) (param $n i32) (result i32)
    (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
    (call_indirect (type $unary) (local.get $n) (local.get $f)))
  (func (export "sum") (param $n i64) (result i64) (local $s i64)
    (block $done (loop $more
      (br_if $done (i64.eqz (local.get $n)))
      (local.set $s (i64.add (local.get $s) (local.get $n)))
      (local.set $n (i64.sub (local.get $n) (i64.const 1)))
      (br $more)))
    (local.get $s))
  (func (export "choose") (param $n i32) (result i32)
    (block $c (block $b (block $a
      (br_table $a $b $c (local.get $n)))
      (return (i32.const 10)))
      (return (i32.const 20)))
    (if (result i32) (i32.eq (local.get $n) (i32.const 2)) (then (i32.const 0x1e)) (else (i32.const -1))))
  (func (export "byte") (param $at i32) (result i32) (i32.load8_u offset=8 (local.get $at)))
  (func (export "fill") (memory.fill (i32.const 8) (i32.const 7) (i32.const 2)) (memory.init 1 (i32.const 11) (i32.const 1) (i32.const 2)))
  (func (export "big") (result i64) (i64.const 0xffff_ffff_ffff_fffe))
  (func (export "half") (param f64) (result f64) (f64.div (local.get 0) (f64.const 2)))
  (func $start (global.set $calls (i32.const 100)))
  (start $start) (; a block
  comment ;))`)
	call := func(name string, args ...uint64) uint64 {
		results, err := m.ExportedFunction(name).Call(t.Context(), args...)
		require.NoError(t, err)
		if len(results) == 0 {
			return 0
		}
		return results[0]
	}
	assert.Equal(t, uint64(14), call("apply", 0, 7))
	assert.Equal(t, uint64(49), call("apply", 1, 7))
	assert.Equal(t, uint64(102), m.ExportedGlobal("calls").Get())
	assert.Equal(t, uint64(5050), call("sum", 100))
	assert.Equal(t, []uint64{10, 20, 30, 0xffffffff}, []uint64{call("choose", 0), call("choose", 1), call("choose", 2), call("choose", 3)})
	data, _ := m.Memory().Read(8, 7)
	assert.Equal(t, "ab\"\\\xff\n\x00", string(data))
	call("fill")
	assert.Equal(t, []uint64{7, 7, '"', 'y', 'z'}, []uint64{call("byte", 0), call("byte", 1), call("byte", 2), call("byte", 3), call("byte", 4)})
	assert.Equal(t, ^uint64(1), call("big"))
	assert.InDelta(t, 1.5, api.DecodeF64(call("half", api.EncodeF64(3))), 0)
}

// Every instruction that the assembler knows is one that the engine accepts: after
// unreachable the operands do not matter.
func TestEveryInstructionIsValid(t *testing.T) {
	runtime := wazero.NewRuntimeWithConfig(t.Context(), wazero.NewRuntimeConfigInterpreter())
	arguments := map[string]string{
		"br": "0", "br_if": "0", "br_table": "0 0", "call": "$f", "call_indirect": "(type $t)", "local.get": "$l", "local.set": "$l", "local.tee": "$l",
		"global.get": "$g", "global.set": "$g", "i32.const": "-1", "i64.const": "-1", "f32.const": "1.5", "f64.const": "-1e3",
		"ref.null": "func", "ref.func": "$f", "memory.init": "0", "data.drop": "0", "table.init": "0", "elem.drop": "0",
	}
	names := wat.Instructions()
	assert.Greater(t, len(names), 190)
	for _, name := range names {
		text := strings.Join([]string{`(type $t (func)) (memory 1) (table 1 funcref) (global $g (mut i32) (i32.const 0)) (elem (i32.const 0) $f) (data "x")
			(func $f (local $l i32) unreachable`, name, arguments[name], `unreachable)`}, " ")
		wasm, err := wat.Assemble(text)
		require.NoError(t, err, name)
		_, err = runtime.CompileModule(t.Context(), wasm)
		assert.NoError(t, err, name)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"a list that is not closed":   {"(func", "line 1"},
		"a parenthesis too many":      {"(func))", "a parenthesis too many"},
		"a string that does not end":  {`(data (i32.const 0) "x`, "a string does not end"},
		"an unknown escape":           {`(data (i32.const 0) "\zz")`, `escape \zz is unknown`},
		"a comment that does not end": {"(; x", "a comment does not end"},
		"an unknown field":            {"(tag)", `field "tag" is unknown`},
		"an unknown instruction":      {"(func\n  (i32.plus))", `line 2: instruction "i32.plus" is unknown`},
		"an unknown local":            {"(func (local.get $x))", "local $x is unknown"},
		"an unknown function":         {"(func (call $x))", "function $x is unknown"},
		"an unknown label":            {"(func (br $x))", "label $x is unknown"},
		"a number that is too large":  {"(func (i32.const 4294967296))", "not a number of 32 bits"},
		"a missing immediate":         {"(func (i32.const))", "lacks an immediate"},
		"an immediate too many":       {"(func (nop nop))", "too many immediates"},
		"an if without then":          {"(func (if (i32.const 1)))", "an if has a then"},
		"an unknown type":             {"(func (param i31))", `type "i31" is unknown`},
		"an export of nothing":        {`(export "x" (thing 0))`, `kind "thing"`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := wat.Assemble(tc.text)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func FuzzAssemble(f *testing.F) {
	f.Add(`(module (func $f (export "f") (param $x i32) (result i32) (if (result i32) (local.get $x) (then (i32.const 1)) (else (i32.load8_u offset=1 (i32.const 0))))))`)
	f.Add(`(import "a" "b" (func (param i64))) (global (mut i32) (i32.const 0)) (data "x\00") (table 1 funcref) (start 0)`)
	f.Fuzz(func(_ *testing.T, text string) {
		_, _ = wat.Assemble(text) // never a panic
	})
}
