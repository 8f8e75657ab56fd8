//go:build !wasip1

package json

import "encoding/binary"

// word loads eight bytes at i, the first lowest, which must all be there.
func word(data []byte, i int) uint64 { return binary.LittleEndian.Uint64(data[i : i+8]) }
