;; One instruction that claims to copy 4 GiB: it is paid before it can fail.
(; include ../prelude.wat ;)
(func $probe (result i32) (memory.copy (i32.const 0) (i32.const 1024) (i32.const -1)) (i32.const 0))
