;; A module whose types do not fit.
(module (func (export "describe") (result i32) (i64.const 0)))
