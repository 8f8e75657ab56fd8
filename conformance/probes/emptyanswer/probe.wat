;; An answer of no bytes.
(; include ../prelude.wat ;)
(func $probe (result i32) (call $output_set (call $alloc (i64.const 8)) (i64.const 0)) (i32.const 0))
