;; A value of a type that the field cannot have.
(; include ../prelude.wat ;)
(data (i32.const 1024) "{\"version\":\"v1alpha1\",\"operations\":[{\"op\":\"ensure\",\"path\":\"/spec/tolerations\",\"value\":\"all\"}]}")
(func $probe (result i32) (call $answer (i32.const 1024) (i32.const 94)))
