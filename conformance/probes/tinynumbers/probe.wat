;; Divides numbers so tiny that a processor needs ten times as long for them.
(; include ../prelude.wat ;)
(func $probe (result i32)
  (local $n f64)
  (local.set $n (f64.reinterpret_i64 (i64.const 1)))
  (loop $more (local.set $n (f64.div (local.get $n) (f64.const 0.75))) (local.set $n (f64.div (local.get $n) (f64.const 0.75))) (br $more))
  (i32.const 0))
