;; A start function that never ends.
(; include ../prelude.wat ;)
(func $start (loop $more (br $more)))
(start $start)
(func $probe (result i32) (i32.const 0))
