;; A function that returns as if all were well, without an answer.
(; include ../prelude.wat ;)
(func $probe (result i32) (i32.const 0))
