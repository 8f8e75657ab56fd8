;; More memory than there may be, asked for at once, and used as if it were there.
(; include ../prelude.wat ;)
(func $probe (result i32)
  (drop (memory.grow (i32.const 20000)))
  (i32.store (i32.const 0x40000000) (i32.const 1))
  (i32.const 0))
