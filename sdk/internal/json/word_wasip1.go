package json

import "unsafe"

// word loads eight bytes at i, the first lowest, which must all be there. Wasm is
// little endian and needs no alignment, so this is one instruction; encoding/binary
// would be eight.
func word(data []byte, i int) uint64 { return *(*uint64)(unsafe.Pointer(&data[i])) }

// half loads four bytes at i, the first lowest, which must all be there.
func half(data []byte, i int) uint64 { return uint64(*(*uint32)(unsafe.Pointer(&data[i]))) }

// setWord stores eight bytes at i, for which there must be room.
func setWord(data []byte, i int, w uint64) { *(*uint64)(unsafe.Pointer(&data[i])) = w }

// setHalf stores four bytes at i, for which there must be room.
func setHalf(data []byte, i int, w uint32) { *(*uint32)(unsafe.Pointer(&data[i])) = w }
