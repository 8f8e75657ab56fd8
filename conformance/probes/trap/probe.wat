;; A trap, what C's __builtin_trap and most panics end in.
(; include ../prelude.wat ;)
(func $probe (result i32) (unreachable))
