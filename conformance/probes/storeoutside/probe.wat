;; A store in the host's memory behind the last block.
(; include ../prelude.wat ;)
(func $probe (result i32) (call $store_u64 (i64.const -4) (i64.const 1)) (i32.const 0))
