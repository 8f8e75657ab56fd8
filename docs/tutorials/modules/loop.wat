;; A policy that never answers: the tutorial's runaway.
(module
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (import "extism:host/env" "store_u8" (func $store_u8 (param i64 i32)))
  (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
  (memory 1)
  ;; The manifest.
  (data (i32.const 0) "{\"name\":\"loop\",\"version\":\"1.0.0\",\"contracts\":[\"v1alpha1\"],\"points\":[{\"point\":\"PodMutation\",\"moments\":[\"Admission\"],\"reads\":[\"/object/metadata/name\"],\"writes\":[{\"path\":\"/metadata/labels\",\"verbs\":[\"merge\"]}]}]}")
  ;; The answer.
  (data (i32.const 1024) "{\"version\":\"v1alpha1\"}")
  ;; say answers with the length bytes at an address.
  (func $say (param $at i32) (param $length i32)
    (local $block i64) (local $i i32)
    (local.set $block (call $alloc (i64.extend_i32_u (local.get $length))))
    (loop $more
      (call $store_u8 (i64.add (local.get $block) (i64.extend_i32_u (local.get $i)))
        (i32.load8_u (i32.add (local.get $at) (local.get $i))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $more (i32.lt_u (local.get $i) (local.get $length))))
    (call $output_set (local.get $block) (i64.extend_i32_u (local.get $length))))
  (func (export "describe") (result i32)
    (call $say (i32.const 0) (i32.const 208))
    (i32.const 0))
  (func (export "pod_mutation") (result i32)
    (loop $forever (br $forever))
    (call $say (i32.const 1024) (i32.const 22))
    (i32.const 0)))
