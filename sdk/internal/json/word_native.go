//go:build !wasip1

package json

import "encoding/binary"

// word loads eight bytes at i, the first lowest, which must all be there.
func word(data []byte, i int) uint64 { return binary.LittleEndian.Uint64(data[i : i+8]) }

// half loads four bytes at i, the first lowest, which must all be there.
func half(data []byte, i int) uint64 { return uint64(binary.LittleEndian.Uint32(data[i : i+4])) }

// setWord stores eight bytes at i, for which there must be room.
func setWord(data []byte, i int, w uint64) { binary.LittleEndian.PutUint64(data[i:i+8], w) }

// setHalf stores four bytes at i, for which there must be room.
func setHalf(data []byte, i int, w uint32) { binary.LittleEndian.PutUint32(data[i:i+4], w) }
