;; An operation at a path that the manifest does not declare.
(; include ../prelude.wat ;)
(data (i32.const 1024) "{\"version\":\"v1alpha1\",\"operations\":[{\"op\":\"set\",\"path\":\"/spec/nodeName\",\"value\":\"master\"}]}")
(func $probe (result i32) (call $answer (i32.const 1024) (i32.const 91)))
