;; Two functions that call each other through a table.
(; include ../prelude.wat ;)
(type $self (func (result i32)))
(table 2 funcref)
(elem (i32.const 0) $probe $other)
(func $probe (result i32) (i32.add (call_indirect (type $self) (i32.const 1)) (i32.const 1)))
(func $other (result i32) (i32.add (call_indirect (type $self) (i32.const 0)) (i32.const 1)))
