;; A trap of a module that said before what is wrong.
(; include ../prelude.wat ;)
(data (i32.const 1024) "index out of range at policy.ts:17")
(func $probe (result i32) (call $error_set (call $text (i32.const 1024) (i32.const 34))) (unreachable))
