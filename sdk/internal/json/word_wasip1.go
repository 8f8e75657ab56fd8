package json

import "unsafe"

// word loads eight bytes at i, the first lowest, which must all be there. Wasm is
// little endian and needs no alignment, so this is one instruction; encoding/binary
// would be eight.
func word(data []byte, i int) uint64 { return *(*uint64)(unsafe.Pointer(&data[i])) }
