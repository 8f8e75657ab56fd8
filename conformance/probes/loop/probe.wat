;; A loop without end.
(; include ../prelude.wat ;)
(func $probe (result i32) (loop $more (br $more)) (i32.const 0))
