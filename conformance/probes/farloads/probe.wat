;; Loads from all over its memory, each from the address that the last one gave, which takes long for an instruction.
(; include ../prelude.wat ;)
(func $probe (result i32)
  (local $at i32)
  (drop (memory.grow (i32.const 400)))
  (loop $more
    (local.set $at (i32.and (i32.add (i32.mul (i32.add (local.get $at) (i32.load (local.get $at))) (i32.const 1664525)) (i32.const 1013904223)) (i32.const 0xfffff0)))
    (br $more))
  (i32.const 0))
