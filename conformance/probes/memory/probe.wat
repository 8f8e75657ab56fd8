;; Memory without end: it grows by a page at a time, and gives up when it cannot.
(; include ../prelude.wat ;)
(func $probe (result i32)
  (loop $more (br_if $more (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))
  (unreachable))
