;; Log lines without end: they use up fuel like everything else.
(; include ../prelude.wat ;)
(data (i32.const 1024) "again")
(func $probe (result i32) (local $block i64)
  (local.set $block (call $text (i32.const 1024) (i32.const 5)))
  (loop $more (call $log_info (local.get $block)) (br $more))
  (i32.const 0))
