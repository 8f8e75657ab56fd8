;; Asks for a variable with a name of half a megabyte, again and again.
(; include ../prelude.wat ;)
(func $probe (result i32)
  (local $key i64)
  (local.set $key (call $alloc (i64.const 524288)))
  (loop $more (drop (call $var_get (local.get $key))) (drop (call $var_get (local.get $key))) (br $more))
  (i32.const 0))
