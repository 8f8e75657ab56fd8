// Package wattest makes small policy modules for tests, in WebAssembly's text format: of a
// manifest and a fixed answer.
package wattest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/longshore-dev/longshore/conformance/wat"
)

// answerAt is where the answer lies in the guest's memory; the manifest ends before it.
const answerAt = 4096

const source = `(module
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (import "extism:host/env" "store_u8" (func $store_u8 (param i64 i32)))
  (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
  %IMPORTS
  (memory 1)
  (data (i32.const 0) "%MANIFEST")
  (data (i32.const 4096) "%ANSWER")
  (func $say (param $at i32) (param $length i32) (local $block i64) (local $i i32)
    (local.set $block (call $alloc (i64.extend_i32_u (local.get $length))))
    (loop $more
      (call $store_u8 (i64.add (local.get $block) (i64.extend_i32_u (local.get $i)))
        (i32.load8_u (i32.add (local.get $at) (local.get $i))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $more (i32.lt_u (local.get $i) (local.get $length))))
    (call $output_set (local.get $block) (i64.extend_i32_u (local.get $length))))
  (func (export "describe") (result i32) (call $say (i32.const 0) (i32.const %MANIFESTLENGTH)) (i32.const 0))
  (func (export "%EXPORT") (result i32) %FIRST (call $say (i32.const 4096) (i32.const %ANSWERLENGTH)) (i32.const 0)))`

// Guest is a module that answers one point.
type Guest struct {
	// Export is that of the point, PodMutation's when empty.
	Export string
	// Manifest and Answer are JSON.
	Manifest, Answer string
	// Imports are further import fields, First the instructions before the answer; both in
	// the text format.
	Imports, First string
}

// Assemble returns the module.
func (g Guest) Assemble() ([]byte, error) {
	if len(g.Manifest) > answerAt {
		return nil, fmt.Errorf("the manifest has %d bytes, want at most %d", len(g.Manifest), answerAt)
	}
	if g.Export == "" {
		g.Export = "pod_mutation"
	}
	quote := func(s string) string { return strings.NewReplacer(`\`, `\5c`, `"`, `\22`).Replace(s) }
	wasm, err := wat.Assemble(strings.NewReplacer("%EXPORT", g.Export, "%IMPORTS", g.Imports, "%FIRST", g.First,
		"%MANIFESTLENGTH", strconv.Itoa(len(g.Manifest)), "%MANIFEST", quote(g.Manifest),
		"%ANSWERLENGTH", strconv.Itoa(len(g.Answer)), "%ANSWER", quote(g.Answer)).Replace(source))
	if err != nil {
		return nil, fmt.Errorf("assembling the test guest: %w", err)
	}
	return wasm, nil
}
