;; An answer that is no JSON.
(; include ../prelude.wat ;)
(data (i32.const 1024) "yes, of course")
(func $probe (result i32) (call $answer (i32.const 1024) (i32.const 14)))
