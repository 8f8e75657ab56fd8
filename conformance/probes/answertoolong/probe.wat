;; An answer that is said to go on behind the last block.
(; include ../prelude.wat ;)
(func $probe (result i32) (call $output_set (call $alloc (i64.const 16)) (i64.const 100000)) (i32.const 0))
