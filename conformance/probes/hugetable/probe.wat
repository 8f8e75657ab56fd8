;; A table that takes more than it is worth.
(module
  (table 100000000 funcref)
  (func (export "describe") (result i32) (i32.const 0)))
