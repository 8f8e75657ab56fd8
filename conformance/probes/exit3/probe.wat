;; Exit 3.
(; include ../prelude.wat ;)
(func $probe (result i32) (call $proc_exit (i32.const 3)) (unreachable))
