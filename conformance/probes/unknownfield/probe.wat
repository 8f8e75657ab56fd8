;; An answer with a member that the contract does not know.
(; include ../prelude.wat ;)
(data (i32.const 1024) "{\"version\":\"v1alpha1\",\"patch\":[{\"op\":\"add\",\"path\":\"/spec/hostNetwork\",\"value\":true}]}")
(func $probe (result i32) (call $answer (i32.const 1024) (i32.const 85)))
