package json

import (
	"math/bits"
	"unsafe"
)

const (
	everyByte = 0x0101010101010101
	topBits   = 0x8080808080808080
)

// stops returns the top bit of each byte of a word that ends a run of plain ASCII inside
// a string: a quote, a backslash, a control character, or a byte of a longer rune. Only
// the lowest bit counts.
//
// Subtracting n from each byte of a word sets the top bit of the lowest byte that is
// smaller than n; a borrow disturbs only higher bytes. Equality is "smaller than one"
// after xor.
func stops(w uint64) uint64 {
	return (w | (w - ' '*everyByte) | ((w ^ '"'*everyByte) - everyByte) | ((w ^ '\\'*everyByte) - everyByte)) & topBits
}

// plain returns the index of the first byte at or after i that ends a run of plain
// ASCII, and len(data) if there is none. It looks at eight bytes at once, also beyond the
// end of data, as far as there is room.
func plain(data []byte, i int) int {
	room := data[:cap(data)]
	for ; i+8 <= len(room); i += 8 {
		if hits := stops(word(room, i)); hits != 0 {
			return min(i+bits.TrailingZeros64(hits)>>3, len(data))
		}
	}
	for i < len(data) && data[i] >= ' ' && data[i] < 0x80 && data[i] != '"' && data[i] != '\\' {
		i++
	}
	return min(i, len(data))
}

// putPlain copies text to data, which has room for it and no more, and reports whether all
// of it is plain ASCII; if it is not, data holds something else.
func putPlain(data, text []byte) bool {
	n := len(text)
	if n != len(data) {
		return false
	}
	switch {
	case n >= 8:
		// The last word overlaps the one before it.
		last := n - 8
		for i := 0; i < last; i += 8 {
			w := word(text, i)
			if stops(w) != 0 {
				return false
			}
			setWord(data, i, w)
		}
		w := word(text, last)
		setWord(data, last, w)
		return stops(w) == 0
	case n >= 4:
		first, last := half(text, 0), half(text, n-4)
		setHalf(data, 0, uint32(first))
		setHalf(data, n-4, uint32(last))
		return stops(first|last<<32) == 0
	}
	ok := true
	for i, c := range text {
		data[i] = c
		ok = ok && c >= ' ' && c < 0x80 && c != '"' && c != '\\'
	}
	return ok
}

// Text returns data, such as a key, as a string without copying it. The caller must never change data
// again.
func Text(data []byte) string { return unsafe.String(unsafe.SliceData(data), len(data)) }

// octets returns the bytes of a string without copying them; they must not be changed.
func octets(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
