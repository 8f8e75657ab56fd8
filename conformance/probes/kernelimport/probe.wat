;; A function that is between host and kernel.
(module
  (import "longshore:kernel" "var_set" (func (param i64 i64)))
  (func (export "describe") (result i32) (i32.const 0)))
