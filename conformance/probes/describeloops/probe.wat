;; A describe that never ends.
(module
  (memory 1)
  (func (export "describe") (result i32) (loop $more (br $more)) (i32.const 0)))
