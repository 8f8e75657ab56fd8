;; A load of the host's memory behind the last block.
(; include ../prelude.wat ;)
(func $probe (result i32) (call $load_u8 (i64.const 900000)))
