;; A call through an empty entry of a table.
(; include ../prelude.wat ;)
(type $self (func (result i32)))
(table 2 funcref)
(func $probe (result i32) (call_indirect (type $self) (i32.const 1)))
