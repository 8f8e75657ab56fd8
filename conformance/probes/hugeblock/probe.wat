;; A block larger than an address.
(func $probe (result i32) (drop (call $alloc (i64.const -1))) (i32.const 0))
