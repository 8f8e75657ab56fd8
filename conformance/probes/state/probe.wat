;; A module that counts its calls, in a global and in memory: it is always the first.
(; include ../prelude.wat ;)
(global $calls (mut i64) (i64.const 0))
(func $probe (result i32)
  (global.set $calls (i64.add (global.get $calls) (i64.const 1)))
  (i64.store (i32.const 70000) (i64.add (i64.load (i32.const 70000)) (i64.const 256)))
  (call $answerNumber (i64.add (global.get $calls) (i64.load (i32.const 70000)))))
