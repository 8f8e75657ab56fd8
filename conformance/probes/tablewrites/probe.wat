;; A module that changes a table, which cannot be set back.
(; include ../prelude.wat ;)
(table 4 funcref)
(func $probe (result i32) (table.set (i32.const 0) (ref.func $probe)) (i32.const 0))
(elem (i32.const 1) $probe)
