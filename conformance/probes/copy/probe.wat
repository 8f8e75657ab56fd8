;; 64 KiB are copied again and again.
(; include ../prelude.wat ;)
(func $probe (result i32)
  (loop $more (memory.copy (i32.const 65536) (i32.const 0) (i32.const 65536)) (br $more))
  (i32.const 0))
