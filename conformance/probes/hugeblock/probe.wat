;; A block larger than an address.
(; include ../prelude.wat ;)
(func $probe (result i32) (drop (call $alloc (i64.const -1))) (i32.const 0))
