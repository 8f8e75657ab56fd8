;; A module that reads a block as it comes, to find what an earlier call left there.
(; include ../prelude.wat ;)
(func $probe (result i32) (local $block i64) (local $i i64) (local $sum i64)
  (local.set $block (call $alloc (i64.const 20000)))
  (loop $more
    (local.set $sum (i64.or (local.get $sum) (call $load_u64 (i64.add (local.get $block) (local.get $i)))))
    (local.set $i (i64.add (local.get $i) (i64.const 8)))
    (br_if $more (i64.lt_u (local.get $i) (i64.const 20000))))
  (local.set $i (i64.const 0))
  (loop $spoil
    (call $store_u64 (i64.add (local.get $block) (local.get $i)) (i64.const -1))
    (local.set $i (i64.add (local.get $i) (i64.const 8)))
    (br_if $spoil (i64.lt_u (local.get $i) (i64.const 20000))))
  (call $answerNumber (local.get $sum)))
