;; The policy "accelerator" of conformance/guests/text, but it reads what it does not declare.
(; include ../../guests/text/prelude.wat ;)

(data (i32.const 256)
  "{\"version\":\"v1alpha1\",\"operations\":[{\"op\":\"ensure\",\"path\":\"/spec/tolerations\","
  "\"value\":[{\"key\":\"accelerator\",\"operator\":\"Equal\",\"value\":")
(data (i32.const 448) ",\"effect\":\"NoSchedule\"}]}]}")
(data (i32.const 512)
  "{\"name\":\"accelerator\",\"version\":\"1.0.0\",\"contracts\":[\"v1alpha1\"],\"points\":[{\"point\":\"PodMutation\","
  "\"moments\":[\"Admission\"],\"reads\":[\"/object/metadata/name\"],"
  "\"writes\":[{\"path\":\"/spec/tolerations\",\"verbs\":[\"ensure\"]}]}]}")

(func (export "describe") (result i32) (call $answer (i32.const 512) (i32.const 217)))

(func (export "pod_mutation") (result i32)
  (if (i32.eqz (call $read)) (then (return (call $failNotJSON))))
  (if (global.get $wrong) (then (return (call $failNoString))))
  (if (i32.eqz (global.get $found)) (then (return (call $answerNothing))))
  (call $answerValue (i32.const 135) (i32.const 27)))
