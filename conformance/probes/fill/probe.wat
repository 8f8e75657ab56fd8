;; Bulk instructions that do much at once: 128 KiB are filled again and again.
(; include ../prelude.wat ;)
(func $probe (result i32)
  (loop $more (memory.fill (i32.const 1024) (i32.const 7) (i32.const 129024)) (br $more))
  (i32.const 0))
