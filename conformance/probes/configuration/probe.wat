;; Extism's configuration: empty, since settings travel in the request.
(; include ../prelude.wat ;)
(data (i32.const 1024) "setting")
(func $probe (result i32) (call $answerNumber (call $config_get (call $text (i32.const 1024) (i32.const 7)))))
