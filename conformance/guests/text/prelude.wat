;; What the policy "accelerator" is made of, but for its manifest and its decision: a reader of
;; JSON, and functions that answer. The mutants of conformance/suite include it, too.
;;
;; It reads the whole request; what it keeps is the string at
;; /facts/object/spec/nodeSelector/accelerator, as it is written, quotes included. The
;; host writes names without escapes, so names are compared as they are.

(import "extism:host/env" "input_length" (func $input_length (result i64)))
(import "extism:host/env" "input_load_u8" (func $input_load_u8 (param i64) (result i32)))
(import "extism:host/env" "input_load_u64" (func $input_load_u64 (param i64) (result i64)))
(import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
(import "extism:host/env" "store_u8" (func $store_u8 (param i64 i32)))
(import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
(import "extism:host/env" "error_set" (func $error_set (param i64)))

(memory (export "memory") 2)

;; The names on the way, sixteen bytes each, the last of them the length.
(data (i32.const 0) "facts")
(data (i32.const 15) "\05")
(data (i32.const 16) "object")
(data (i32.const 31) "\06")
(data (i32.const 32) "spec")
(data (i32.const 47) "\04")
(data (i32.const 48) "nodeSelector")
(data (i32.const 63) "\0c")
(data (i32.const 64) "accelerator")
(data (i32.const 79) "\0b")

(data (i32.const 96) "truefalsenull")
(data (i32.const 128) "the request is not JSON")               ;; 23 bytes
(data (i32.const 160) "spec.nodeSelector.accelerator is not a string") ;; 45
(data (i32.const 224) "{\"version\":\"v1alpha1\"}")              ;; 22

(global $at (mut i32) (i32.const 0))       ;; the next byte of the request
(global $end (mut i32) (i32.const 0))      ;; the end of the request
(global $found (mut i32) (i32.const 0))    ;; the value, quotes included; 0 for none
(global $foundEnd (mut i32) (i32.const 0))
(global $wrong (mut i32) (i32.const 0))    ;; something else than a string stands there

;; load copies the request to 65536.
(func $load
  (local $n i64) (local $i i64)
  (local.set $n (call $input_length))
  ;; The second page holds what most requests need: an instance that grew is thrown away.
  (if (i64.gt_u (local.get $n) (i64.const 65528))
    (then (drop (memory.grow (i32.add (i32.wrap_i64 (i64.shr_u (local.get $n) (i64.const 16))) (i32.const 1))))))
  (global.set $at (i32.const 65536))
  (global.set $end (i32.add (i32.const 65536) (i32.wrap_i64 (local.get $n))))
  (block $tail (loop $words
    (br_if $tail (i64.gt_u (i64.add (local.get $i) (i64.const 8)) (local.get $n)))
    (i64.store offset=65536 (i32.wrap_i64 (local.get $i)) (call $input_load_u64 (local.get $i)))
    (local.set $i (i64.add (local.get $i) (i64.const 8)))
    (br $words)))
  (block $done (loop $bytes
    (br_if $done (i64.ge_u (local.get $i) (local.get $n)))
    (i32.store8 offset=65536 (i32.wrap_i64 (local.get $i)) (call $input_load_u8 (local.get $i)))
    (local.set $i (i64.add (local.get $i) (i64.const 1)))
    (br $bytes))))

;; peek answers with the next byte, 0 at the end.
(func $peek (result i32)
  (if (i32.ge_u (global.get $at) (global.get $end)) (then (return (i32.const 0))))
  (i32.load8_u (global.get $at)))

(func $advance (global.set $at (i32.add (global.get $at) (i32.const 1))))

;; take skips the byte if it is the next one.
(func $take (param $byte i32) (result i32)
  (if (i32.ne (call $peek) (local.get $byte)) (then (return (i32.const 0))))
  (call $advance)
  (i32.const 1))

(func $space
  (local $c i32)
  (loop $more
    (local.set $c (call $peek))
    (if (i32.or (i32.or (i32.eq (local.get $c) (i32.const 0x20)) (i32.eq (local.get $c) (i32.const 0x0a)))
                (i32.or (i32.eq (local.get $c) (i32.const 0x0d)) (i32.eq (local.get $c) (i32.const 0x09))))
      (then (call $advance) (br $more)))))

(func $same (param $a i32) (param $b i32) (param $n i32) (result i32)
  (loop $more
    (if (i32.eqz (local.get $n)) (then (return (i32.const 1))))
    (local.set $n (i32.sub (local.get $n) (i32.const 1)))
    (br_if $more (i32.eq (i32.load8_u (i32.add (local.get $a) (local.get $n)))
                         (i32.load8_u (i32.add (local.get $b) (local.get $n))))))
  (i32.const 0))

;; literal skips the word of n bytes at the address.
(func $literal (param $word i32) (param $n i32) (result i32)
  (if (i32.gt_u (local.get $n) (i32.sub (global.get $end) (global.get $at))) (then (return (i32.const 0))))
  (if (i32.eqz (call $same (global.get $at) (local.get $word) (local.get $n))) (then (return (i32.const 0))))
  (global.set $at (i32.add (global.get $at) (local.get $n)))
  (i32.const 1))

(func $isHex (param $c i32) (result i32)
  (if (i32.lt_u (i32.sub (local.get $c) (i32.const 0x30)) (i32.const 10)) (then (return (i32.const 1))))
  (i32.lt_u (i32.sub (i32.or (local.get $c) (i32.const 0x20)) (i32.const 0x61)) (i32.const 6)))

;; escape skips what follows a backslash.
(func $escape (result i32)
  (local $c i32) (local $n i32)
  (local.set $c (call $peek))
  (call $advance)
  (if (i32.eq (local.get $c) (i32.const 0x75)) ;; u and four hexadecimal digits
    (then
      (loop $digits
        (if (i32.eqz (call $isHex (call $peek))) (then (return (i32.const 0))))
        (call $advance)
        (local.set $n (i32.add (local.get $n) (i32.const 1)))
        (br_if $digits (i32.lt_u (local.get $n) (i32.const 4))))
      (return (i32.const 1))))
  ;; one of "\/bfnrt
  (i32.or
    (i32.or (i32.or (i32.eq (local.get $c) (i32.const 0x22)) (i32.eq (local.get $c) (i32.const 0x5c)))
            (i32.or (i32.eq (local.get $c) (i32.const 0x2f)) (i32.eq (local.get $c) (i32.const 0x62))))
    (i32.or (i32.or (i32.eq (local.get $c) (i32.const 0x66)) (i32.eq (local.get $c) (i32.const 0x6e)))
            (i32.or (i32.eq (local.get $c) (i32.const 0x72)) (i32.eq (local.get $c) (i32.const 0x74))))))

(func $string (result i32)
  (local $c i32) (local $p i32)
  (if (i32.eqz (call $take (i32.const 0x22))) (then (return (i32.const 0))))
  (local.set $p (global.get $at))
  ;; Most bytes of a request stand in strings, so this loop calls nobody.
  (loop $more
    (if (i32.ge_u (local.get $p) (global.get $end)) (then (return (i32.const 0))))
    (local.set $c (i32.load8_u (local.get $p)))
    (if (i32.lt_u (local.get $c) (i32.const 0x20)) (then (return (i32.const 0))))
    (local.set $p (i32.add (local.get $p) (i32.const 1)))
    (br_if $more (i32.and (i32.ne (local.get $c) (i32.const 0x22)) (i32.ne (local.get $c) (i32.const 0x5c))))
    (global.set $at (local.get $p))
    (if (i32.eq (local.get $c) (i32.const 0x5c))
      (then
        (if (i32.eqz (call $escape)) (then (return (i32.const 0))))
        (local.set $p (global.get $at))
        (br $more))))
  (i32.const 1))

;; digits skips at least one.
(func $digits (result i32)
  (local $n i32)
  (loop $more
    (if (i32.lt_u (i32.sub (call $peek) (i32.const 0x30)) (i32.const 10))
      (then (call $advance) (local.set $n (i32.const 1)) (br $more))))
  (local.get $n))

(func $number (result i32)
  (drop (call $take (i32.const 0x2d)))
  (if (i32.eqz (call $take (i32.const 0x30)))
    (then (if (i32.eqz (call $digits)) (then (return (i32.const 0))))))
  (if (call $take (i32.const 0x2e))
    (then (if (i32.eqz (call $digits)) (then (return (i32.const 0))))))
  (if (i32.eq (i32.or (call $peek) (i32.const 0x20)) (i32.const 0x65))
    (then
      (call $advance)
      (if (i32.eqz (call $take (i32.const 0x2b))) (then (drop (call $take (i32.const 0x2d)))))
      (if (i32.eqz (call $digits)) (then (return (i32.const 0))))))
  (i32.const 1))

;; value skips a value. On the way to what we look for, state is the number of names
;; that led here, and -1 elsewhere.
(func $value (param $state i32) (param $depth i32) (result i32)
  (local $c i32) (local $begin i32)
  (if (i32.gt_u (local.get $depth) (i32.const 64)) (then (return (i32.const 0))))
  (call $space)
  (local.set $c (call $peek))
  (local.set $begin (global.get $at))
  (if (i32.eq (local.get $c) (i32.const 0x22))
    (then
      (if (i32.eqz (call $string)) (then (return (i32.const 0))))
      (if (i32.eq (local.get $state) (i32.const 5))
        (then (global.set $found (local.get $begin)) (global.set $foundEnd (global.get $at))))
      (return (i32.const 1))))
  (if (i32.eq (local.get $state) (i32.const 5)) (then (global.set $wrong (i32.const 1))))
  (if (i32.eq (local.get $c) (i32.const 0x7b)) (then (return (call $object (local.get $state) (local.get $depth)))))
  (if (i32.eq (local.get $c) (i32.const 0x5b)) (then (return (call $array (local.get $depth)))))
  (if (i32.eq (local.get $c) (i32.const 0x74)) (then (return (call $literal (i32.const 96) (i32.const 4)))))
  (if (i32.eq (local.get $c) (i32.const 0x66)) (then (return (call $literal (i32.const 100) (i32.const 5)))))
  (if (i32.eq (local.get $c) (i32.const 0x6e)) (then (return (call $literal (i32.const 105) (i32.const 4)))))
  (call $number))

;; next answers with the state behind the name that ends here.
(func $next (param $state i32) (param $begin i32) (result i32)
  (local $n i32)
  (if (i32.gt_u (local.get $state) (i32.const 4)) (then (return (i32.const -1))))
  (local.set $n (i32.load8_u offset=15 (i32.shl (local.get $state) (i32.const 4))))
  (if (i32.ne (local.get $n) (i32.sub (i32.sub (global.get $at) (local.get $begin)) (i32.const 2))) (then (return (i32.const -1))))
  (if (call $same (i32.add (local.get $begin) (i32.const 1)) (i32.shl (local.get $state) (i32.const 4)) (local.get $n))
    (then (return (i32.add (local.get $state) (i32.const 1)))))
  (i32.const -1))

(func $object (param $state i32) (param $depth i32) (result i32)
  (local $begin i32) (local $next i32)
  (call $advance)
  (call $space)
  (if (call $take (i32.const 0x7d)) (then (return (i32.const 1))))
  (loop $more
    (call $space)
    (local.set $begin (global.get $at))
    (if (i32.eqz (call $string)) (then (return (i32.const 0))))
    (local.set $next (call $next (local.get $state) (local.get $begin)))
    (call $space)
    (if (i32.eqz (call $take (i32.const 0x3a))) (then (return (i32.const 0))))
    (if (i32.eqz (call $value (local.get $next) (i32.add (local.get $depth) (i32.const 1)))) (then (return (i32.const 0))))
    (call $space)
    (br_if $more (call $take (i32.const 0x2c))))
  (call $take (i32.const 0x7d)))

(func $array (param $depth i32) (result i32)
  (call $advance)
  (call $space)
  (if (call $take (i32.const 0x5d)) (then (return (i32.const 1))))
  (loop $more
    (if (i32.eqz (call $value (i32.const -1) (i32.add (local.get $depth) (i32.const 1)))) (then (return (i32.const 0))))
    (call $space)
    (br_if $more (call $take (i32.const 0x2c))))
  (call $take (i32.const 0x5d)))

;; put copies n bytes to a block and answers with the address behind them.
(func $put (param $to i64) (param $from i32) (param $n i32) (result i64)
  (loop $more
    (if (local.get $n)
      (then
        (call $store_u8 (local.get $to) (i32.load8_u (local.get $from)))
        (local.set $to (i64.add (local.get $to) (i64.const 1)))
        (local.set $from (i32.add (local.get $from) (i32.const 1)))
        (local.set $n (i32.sub (local.get $n) (i32.const 1)))
        (br $more))))
  (local.get $to))

(func $fail (param $text i32) (param $n i32) (result i32)
  (local $block i64)
  (local.set $block (call $alloc (i64.extend_i32_u (local.get $n))))
  (drop (call $put (local.get $block) (local.get $text) (local.get $n)))
  (call $error_set (local.get $block))
  (i32.const 1))

(func $answer (param $text i32) (param $n i32) (result i32)
  (local $block i64)
  (local.set $block (call $alloc (i64.extend_i32_u (local.get $n))))
  (drop (call $put (local.get $block) (local.get $text) (local.get $n)))
  (call $output_set (local.get $block) (i64.extend_i32_u (local.get $n)))
  (i32.const 0))

;; read reads the whole request, and answers whether it is JSON.
(func $read (result i32)
  (call $load)
  (if (i32.eqz (call $value (i32.const 0) (i32.const 0))) (then (return (i32.const 0))))
  (call $space)
  (i32.eq (global.get $at) (global.get $end)))

(func $failNotJSON (result i32) (call $fail (i32.const 128) (i32.const 23)))

(func $failNoString (result i32) (call $fail (i32.const 160) (i32.const 45)))

(func $answerNothing (result i32) (call $answer (i32.const 224) (i32.const 22)))

;; answerValue answers with the value, between so many bytes from 256 and from 448 on.
(func $answerValue (param $before i32) (param $after i32) (result i32)
  (local $block i64) (local $p i64) (local $n i32) (local $all i64)
  (local.set $n (i32.sub (global.get $foundEnd) (global.get $found)))
  (local.set $all (i64.extend_i32_u (i32.add (local.get $n) (i32.add (local.get $before) (local.get $after)))))
  (local.set $block (call $alloc (local.get $all)))
  (local.set $p (call $put (local.get $block) (i32.const 256) (local.get $before)))
  (local.set $p (call $put (local.get $p) (global.get $found) (local.get $n)))
  (drop (call $put (local.get $p) (i32.const 448) (local.get $after)))
  (call $output_set (local.get $block) (local.get $all))
  (i32.const 0))
