;; The policy "accelerator" of conformance/guests/text, but it describes itself by the time of day.
(import "wasi_snapshot_preview1" "clock_time_get" (func $clock (param i32 i64 i32) (result i32)))
(; include ../../guests/text/prelude.wat ;)

(data (i32.const 256)
  "{\"version\":\"v1alpha1\",\"operations\":[{\"op\":\"ensure\",\"path\":\"/spec/tolerations\","
  "\"value\":[{\"key\":\"accelerator\",\"operator\":\"Equal\",\"value\":")
(data (i32.const 448) ",\"effect\":\"NoSchedule\"}]}]}")
(data (i32.const 512)
  "{\"name\":\"accelerator\",\"version\":\"1.0.0\",\"contracts\":[\"v1alpha1\"],\"points\":[{\"point\":\"PodMutation\","
  "\"moments\":[\"Admission\"],\"reads\":[\"/object/spec/nodeSelector\"],"
  "\"writes\":[{\"path\":\"/spec/tolerations\",\"verbs\":[\"ensure\"]}]}]}")

;; isNow is true in a host that gives the time of day, and false in one whose clock stands.
(func $isNow (result i32)
  (drop (call $clock (i32.const 0) (i64.const 0) (i32.const 8192)))
  (i64.gt_u (i64.load (i32.const 8192)) (i64.const 1700000000000000000)))

(func (export "describe") (result i32)
  (if (call $isNow) (then (i32.store8 (i32.const 545) (i32.const 0x39))))
  (call $answer (i32.const 512) (i32.const 221)))

(func (export "pod_mutation") (result i32)
  (if (i32.eqz (call $read)) (then (return (call $failNotJSON))))
  (if (global.get $wrong) (then (return (call $failNoString))))
  (if (i32.eqz (global.get $found)) (then (return (call $answerNothing))))
  (call $answerValue (i32.const 135) (i32.const 27)))
