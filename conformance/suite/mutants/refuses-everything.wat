;; The policy "accelerator" of conformance/guests/text, but it refuses everything.
(; include ../../guests/text/prelude.wat ;)

(data (i32.const 512)
  "{\"name\":\"accelerator\",\"version\":\"1.0.0\",\"contracts\":[\"v1alpha1\"],\"points\":[{\"point\":\"PodMutation\","
  "\"moments\":[\"Admission\"],\"reads\":[\"/object/spec/nodeSelector\"],"
  "\"writes\":[{\"path\":\"/spec/tolerations\",\"verbs\":[\"ensure\"]}]}]}")

(func (export "describe") (result i32) (call $answer (i32.const 512) (i32.const 221)))

(func (export "pod_mutation") (result i32) (call $failNotJSON))
