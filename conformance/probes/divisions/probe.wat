;; Slow instructions without a branch between them, 64-bit divisions, in a loop.
(; include ../prelude.wat ;)
(func $probe (result i32) (local $x i64)
  (loop $more
    (local.set $x (i64.div_u (i64.div_u (i64.div_u (i64.div_u (i64.sub (i64.const -1) (local.get $x)) (i64.const 3)) (i64.const 5)) (i64.const 7)) (i64.const 9)))
    (br $more))
  (i32.const 0))
