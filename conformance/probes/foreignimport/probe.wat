;; An import that no policy has.
(module
  (import "env" "emscripten_sleep" (func (param i32)))
  (func (export "describe") (result i32) (i32.const 0)))
