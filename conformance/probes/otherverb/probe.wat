;; A verb that the manifest does not declare, at a path that it does.
(; include ../prelude.wat ;)
(data (i32.const 1024) "{\"version\":\"v1alpha1\",\"operations\":[{\"op\":\"remove\",\"path\":\"/spec/tolerations\"}]}")
(func $probe (result i32) (call $answer (i32.const 1024) (i32.const 80)))
