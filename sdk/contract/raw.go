//go:build !wasip1

package contract

import "encoding/json"

// RawMessage is JSON text that the contract passes on without looking inside. It is
// encoding/json's type, except in a wasm module, where it is a type with the same
// methods: importing encoding/json alone makes a module 400 KiB larger.
type RawMessage = json.RawMessage
