;; The policy "accelerator" of conformance/guests/text, but it adds and removes in turn.
(; include ../../guests/text/prelude.wat ;)

(data (i32.const 512)
  "{\"name\":\"accelerator\",\"version\":\"1.0.0\",\"contracts\":[\"v1alpha1\"],\"points\":[{\"point\":\"PodMutation\","
  "\"moments\":[\"Admission\"],\"reads\":[\"/object/spec/nodeSelector\"],"
  "\"writes\":[{\"path\":\"/spec/nodeSelector\",\"verbs\":[\"merge\",\"remove\"],\"keys\":[\"accelerator\"]}]}]}")

(data (i32.const 4096) "{\"version\":\"v1alpha1\",\"operations\":[{\"op\":\"remove\",\"path\":\"/spec/nodeSelector\",\"keys\":[\"accelerator\"]}]}")
(func $remove (result i32) (call $answer (i32.const 4096) (i32.const 104)))
(data (i32.const 5120) "{\"version\":\"v1alpha1\",\"operations\":[{\"op\":\"merge\",\"path\":\"/spec/nodeSelector\",\"value\":{\"accelerator\":\"x\"}}]}")
(func $merge (result i32) (call $answer (i32.const 5120) (i32.const 108)))

(func (export "describe") (result i32) (call $answer (i32.const 512) (i32.const 253)))

(func (export "pod_mutation") (result i32)
  (if (i32.eqz (call $read)) (then (return (call $failNotJSON))))
  (if (global.get $wrong) (then (return (call $failNoString))))
  (if (i32.eqz (global.get $found)) (then (return (call $merge))))
  (call $remove))
