;; A load behind the end of the memory.
(func $probe (result i32) (i32.load (i32.const 0x7fffffff)))
