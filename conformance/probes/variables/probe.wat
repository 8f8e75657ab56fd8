;; Extism's variables: what a call sets, the next does not find.
(; include ../prelude.wat ;)
(data (i32.const 1024) "memory")
(func $probe (result i32) (local $name i64) (local $before i64)
  (local.set $name (call $text (i32.const 1024) (i32.const 6)))
  (local.set $before (call $var_get (local.get $name)))
  (call $var_set (local.get $name) (local.get $name))
  (if (i64.eqz (call $var_get (local.get $name))) (then (unreachable)))
  (call $answerNumber (local.get $before)))
