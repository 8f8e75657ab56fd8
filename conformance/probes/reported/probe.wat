;; An error of the policy's own, the ordinary way to fail.
(; include ../prelude.wat ;)
(data (i32.const 1024) "the label team is missing")
(func $probe (result i32) (call $error_set (call $text (i32.const 1024) (i32.const 25))) (i32.const 1))
