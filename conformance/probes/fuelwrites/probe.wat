;; Sets a global that the module does not have, and metering adds: its own fuel.
(; include ../prelude.wat ;)
(func $probe (result i32)
  (loop $more (global.set 0 (i64.const 9000000000000000000)) (br $more))
  (i32.const 0))
