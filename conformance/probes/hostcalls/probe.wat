;; A loop of calls of the host, which cost more than calls of the module's own.
(; include ../prelude.wat ;)
(func $probe (result i32)
  (loop $more (drop (call $random_get (i32.const 1024) (i32.const 65536))) (br $more))
  (i32.const 0))
