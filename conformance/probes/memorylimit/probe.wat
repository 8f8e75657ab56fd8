;; A module that begins with more memory than the limit.
(module
  (memory 1000)
  (func (export "describe") (result i32) (i32.const 0)))
