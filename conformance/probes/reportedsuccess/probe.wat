;; An error, an answer and a good status: the error counts.
(; include ../prelude.wat ;)
(data (i32.const 1024) "the label team is missing")
(func $probe (result i32)
  (call $error_set (call $text (i32.const 1024) (i32.const 25)))
  (call $answer (i32.const 512) (i32.const 22)))
