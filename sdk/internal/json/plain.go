package json

import (
	"math/bits"
	"unsafe"
)

const (
	everyByte = 0x0101010101010101
	topBits   = 0x8080808080808080
)

// plain returns the index of the first byte at or after i that ends a run of plain
// ASCII inside a string: a quote, a backslash, a control character, or a byte of a
// longer rune. It returns len(data) if there is none.
//
// It looks at eight bytes at once. Subtracting n from each byte of a word sets the
// top bit of the lowest byte that is smaller than n; a borrow disturbs only higher
// bytes, and only the lowest hit counts. Equality is "smaller than one" after xor.
func plain(data []byte, i int) int {
	for ; i+8 <= len(data); i += 8 {
		w := word(data, i)
		hits := w | (w - ' '*everyByte) | ((w ^ '"'*everyByte) - everyByte) | ((w ^ '\\'*everyByte) - everyByte)
		if hits &= topBits; hits != 0 {
			return i + bits.TrailingZeros64(hits)>>3
		}
	}
	for i < len(data) && data[i] >= ' ' && data[i] < 0x80 && data[i] != '"' && data[i] != '\\' {
		i++
	}
	return i
}

// Text returns data, a key say, as a string without copying it. The caller must never change data
// again.
func Text(data []byte) string { return unsafe.String(unsafe.SliceData(data), len(data)) }

// octets returns the bytes of a string without copying them; they must not be changed.
func octets(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
