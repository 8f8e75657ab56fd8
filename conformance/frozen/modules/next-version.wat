;; A module that claims v1alpha1 and answers in the version after it. Frozen: a test has its digest.
(module
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (import "extism:host/env" "store_u8" (func $store_u8 (param i64 i32)))
  (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
  (memory 1)
  (data (i32.const 0) "{\22name\22:\22frozen\22,\22version\22:\221.0.0\22,\22contracts\22:[\22v1alpha1\22],\22points\22:[{\22point\22:\22PodMutation\22,\22moments\22:[\22Admission\22]}]}")
  (data (i32.const 4096) "{\22version\22:\22v1alpha2\22}")
  (func $say (param $at i32) (param $length i32) (local $block i64) (local $i i32)
    (local.set $block (call $alloc (i64.extend_i32_u (local.get $length))))
    (loop $more
      (call $store_u8 (i64.add (local.get $block) (i64.extend_i32_u (local.get $i)))
        (i32.load8_u (i32.add (local.get $at) (local.get $i))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $more (i32.lt_u (local.get $i) (local.get $length))))
    (call $output_set (local.get $block) (i64.extend_i32_u (local.get $length))))
  (func (export "describe") (result i32) (call $say (i32.const 0) (i32.const 119)) (i32.const 0))
  (func (export "pod_mutation") (result i32) (call $say (i32.const 4096) (i32.const 22)) (i32.const 0)))
