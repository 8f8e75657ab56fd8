;; A module that drops a data segment, which cannot be set back.
(; include ../prelude.wat ;)
(data $once "x")
(func $probe (result i32) (data.drop 2) (i32.const 0))
