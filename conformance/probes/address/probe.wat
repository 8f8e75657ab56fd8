;; A load behind the end of the memory.
(; include ../prelude.wat ;)
(func $probe (result i32) (i32.load (i32.const 0x7fffffff)))
