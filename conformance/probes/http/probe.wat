;; A request to the network by Extism's function.
(; include ../prelude.wat ;)
(data (i32.const 1024) "{\"url\":\"http://example.com\",\"method\":\"GET\"}")
(func $probe (result i32) (drop (call $http_request (call $text (i32.const 1024) (i32.const 43)) (i64.const 0))) (i32.const 0))
