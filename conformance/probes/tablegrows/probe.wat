;; A table that grows without end.
(; include ../prelude.wat ;)
(table 4 funcref)
(func $probe (result i32) (loop $more (drop (table.grow (ref.null func) (i32.const 1000))) (br $more)) (i32.const 0))
