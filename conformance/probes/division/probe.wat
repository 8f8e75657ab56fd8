;; A division by zero.
(; include ../prelude.wat ;)
(func $probe (result i32) (i32.div_s (i32.const 1) (i32.const 0)))
