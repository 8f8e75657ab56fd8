;; Writes a local variable that the function does not have, and metering adds: the length of what it fills.
(; include ../prelude.wat ;)
(func $probe (result i32)
  (loop $more (memory.fill (i32.const 0) (i32.const 1) (i32.const 65536)) (local.set 0 (i32.const 0)) (br $more))
  (i32.const 0))
