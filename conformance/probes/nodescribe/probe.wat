;; A module that does not say what it is.
(module
  (memory 1)
  (func (export "pod_mutation") (result i32) (i32.const 0)))
