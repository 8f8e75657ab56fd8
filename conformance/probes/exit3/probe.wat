;; Exit 3.
(func $probe (result i32) (call $proc_exit (i32.const 3)) (unreachable))
