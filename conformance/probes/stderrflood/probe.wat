;; Standard error without end; then it gives up.
(; include ../prelude.wat ;)
(data (i32.const 1024) "panic: policy: the same words again and again\n")
(func $probe (result i32) (local $n i32)
  (i32.store (i32.const 1200) (i32.const 1024))
  (i32.store (i32.const 1204) (i32.const 46))
  (loop $more
    (drop (call $fd_write (i32.const 2) (i32.const 1200) (i32.const 1) (i32.const 1216)))
    (local.set $n (i32.add (local.get $n) (i32.const 1)))
    (br_if $more (i32.lt_u (local.get $n) (i32.const 10000))))
  (unreachable))
