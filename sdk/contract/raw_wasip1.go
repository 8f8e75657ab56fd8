package contract

import "errors"

// RawMessage is JSON text that the contract passes on without looking inside. It is
// encoding/json's type, except in a wasm module, where it is a type with the same
// methods: importing encoding/json alone makes a module 400 KiB larger.
type RawMessage []byte

// MarshalJSON implements encoding/json's Marshaler.
func (m RawMessage) MarshalJSON() ([]byte, error) {
	if m == nil {
		return []byte("null"), nil
	}
	return m, nil
}

// UnmarshalJSON implements encoding/json's Unmarshaler.
func (m *RawMessage) UnmarshalJSON(data []byte) error {
	if m == nil {
		return errors.New("contract: UnmarshalJSON on a nil RawMessage")
	}
	*m = append((*m)[:0], data...)
	return nil
}
