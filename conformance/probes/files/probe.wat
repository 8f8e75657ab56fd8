;; A file by WASI: there is none, not even a directory.
(; include ../prelude.wat ;)
(data (i32.const 1024) "etc/passwd")
(func $probe (result i32)
  (call $answerNumber (i64.extend_i32_u (call $path_open (i32.const 3) (i32.const 0) (i32.const 1024) (i32.const 10)
    (i32.const 0) (i64.const -1) (i64.const -1) (i32.const 0) (i32.const 1040)))))
