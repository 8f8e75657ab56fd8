;; What the probes share: the host's functions, a manifest, and an export that does what
;; the probe is about only when it is asked a long question. The short ones, with which
;; a module is warmed up, are answered with nothing.

(import "extism:host/env" "input_length" (func $input_length (result i64)))
(import "extism:host/env" "input_offset" (func $input_offset (result i64)))
(import "extism:host/env" "input_load_u8" (func $input_load_u8 (param i64) (result i32)))
(import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
(import "extism:host/env" "length" (func $length (param i64) (result i64)))
(import "extism:host/env" "load_u8" (func $load_u8 (param i64) (result i32)))
(import "extism:host/env" "load_u64" (func $load_u64 (param i64) (result i64)))
(import "extism:host/env" "store_u8" (func $store_u8 (param i64 i32)))
(import "extism:host/env" "store_u64" (func $store_u64 (param i64 i64)))
(import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
(import "extism:host/env" "error_set" (func $error_set (param i64)))
(import "extism:host/env" "log_info" (func $log_info (param i64)))
(import "extism:host/env" "var_get" (func $var_get (param i64) (result i64)))
(import "extism:host/env" "var_set" (func $var_set (param i64 i64)))
(import "extism:host/env" "config_get" (func $config_get (param i64) (result i64)))
(import "extism:host/env" "http_request" (func $http_request (param i64 i64) (result i64)))
(import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
(import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "path_open" (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "clock_time_get" (func $clock_time_get (param i32 i64 i32) (result i32)))
(import "wasi_snapshot_preview1" "random_get" (func $random_get (param i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "args_sizes_get" (func $args_sizes_get (param i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "environ_sizes_get" (func $environ_sizes_get (param i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "sock_send" (func $sock_send (param i32 i32 i32 i32 i32) (result i32)))

;; Probes may write from 1024 on.
(memory (export "memory") 2)
(data (i32.const 0)
  "{\"name\":\"probe\",\"version\":\"1.0.0\",\"contracts\":[\"v1alpha1\"],\"points\":[{\"point\":\"PodMutation\","
  "\"moments\":[\"Admission\"],\"reads\":[\"/object/metadata\"],\"writes\":[{\"path\":\"/spec/tolerations\",\"verbs\":[\"ensure\"]}]}]}")
(data (i32.const 512) "{\"version\":\"v1alpha1\"}")

;; text copies n bytes of memory to a new block.
(func $text (param $from i32) (param $n i32) (result i64)
  (local $block i64) (local $i i32)
  (local.set $block (call $alloc (i64.extend_i32_u (local.get $n))))
  (loop $more
    (if (i32.lt_u (local.get $i) (local.get $n))
      (then
        (call $store_u8 (i64.add (local.get $block) (i64.extend_i32_u (local.get $i))) (i32.load8_u (i32.add (local.get $from) (local.get $i))))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br $more))))
  (local.get $block))

(func $answer (param $from i32) (param $n i32) (result i32)
  (call $output_set (call $text (local.get $from) (local.get $n)) (i64.extend_i32_u (local.get $n)))
  (i32.const 0))

;; answerNumber writes a number as sixteen digits, in quotes, and answers with it.
(func $answerNumber (param $n i64) (result i32)
  (local $i i32) (local $digit i32)
  (i32.store8 (i32.const 2048) (i32.const 0x22))
  (loop $more
    (local.set $digit (i32.wrap_i64 (i64.and (i64.shr_u (local.get $n) (i64.extend_i32_u (i32.sub (i32.const 60) (i32.shl (local.get $i) (i32.const 2))))) (i64.const 15))))
    (i32.store8 offset=2049 (local.get $i)
      (i32.add (local.get $digit) (if (result i32) (i32.lt_u (local.get $digit) (i32.const 10)) (then (i32.const 0x30)) (else (i32.const 0x57)))))
    (local.set $i (i32.add (local.get $i) (i32.const 1)))
    (br_if $more (i32.lt_u (local.get $i) (i32.const 16))))
  (i32.store8 (i32.const 2065) (i32.const 0x22))
  (call $answer (i32.const 2048) (i32.const 18)))

(func (export "describe") (result i32) (call $answer (i32.const 0) (i32.const 206)))

(func (export "pod_mutation") (result i32)
  (if (i64.lt_u (call $input_length) (i64.const 1024)) (then (return (call $answer (i32.const 512) (i32.const 22)))))
  (call $probe))
