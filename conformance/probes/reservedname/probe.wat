;; A module that wants to set its own fuel.
(module
  (global $fuel (mut i64) (i64.const 0))
  (export "longshore:fuel" (global $fuel))
  (func (export "describe") (result i32) (i32.const 0)))
