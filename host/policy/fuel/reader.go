package fuel

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

// reader decodes a part of a module. It keeps its first error, after which every method returns
// zero. Callers check err once, at the end.
type reader struct {
	data []byte
	pos  int
	// base is the offset of data in the module, for messages.
	base int
	// space limits the indices in the data.
	space *space
	// functions are the indices of functions that were read.
	functions []functionRef
	err       error
}

var errShort = errors.New("the data ends too early")

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = fmt.Errorf("at byte %#x: %w", r.base+r.pos, err)
	}
}

func (r *reader) rest() int { return len(r.data) - r.pos }

func (r *reader) done() bool { return r.err != nil || r.pos >= len(r.data) }

func (r *reader) byte() byte {
	if r.err != nil {
		return 0
	}
	if r.pos >= len(r.data) {
		r.fail(errShort)
		return 0
	}
	b := r.data[r.pos]
	r.pos++
	return b
}

// take returns the next n bytes, which share memory with the module.
func (r *reader) take(n uint32) []byte {
	if r.err != nil {
		return nil
	}
	if uint64(n) > uint64(r.rest()) {
		r.fail(errShort)
		return nil
	}
	b := r.data[r.pos : r.pos+int(n)]
	r.pos += int(n)
	return b
}

// u32 decodes an unsigned LEB128 number.
func (r *reader) u32() uint32 {
	var v uint64
	for shift := 0; shift < 35; shift += 7 {
		b := r.byte()
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			if v > math.MaxUint32 {
				break
			}
			return uint32(v)
		}
	}
	r.fail(errors.New("a number is larger than 32 bits"))
	return 0
}

// s64 decodes a signed LEB128 number of at most the given number of bytes: 5 for 32
// and 33 bits, 10 for 64.
func (r *reader) s64(bytes int) int64 {
	var v int64
	for i, shift := 0, 0; i < bytes; i++ {
		b := r.byte()
		v |= int64(b&0x7f) << shift
		shift += 7
		if b < 0x80 {
			if shift < 64 && b&0x40 != 0 {
				v |= -1 << shift
			}
			return v
		}
	}
	r.fail(errors.New("a number is too long"))
	return 0
}

// count decodes the length of a list with at most limit items of at least size bytes each, so
// that a forged length does not cause a large allocation.
func (r *reader) count(size, most int) int {
	n := r.u32()
	switch {
	case r.err != nil:
		return 0
	case uint64(n)*uint64(size) > uint64(r.rest()):
		r.fail(fmt.Errorf("a list of %d items cannot fit: %w", n, errShort))
		return 0
	case int64(n) > int64(most):
		r.fail(fmt.Errorf("a list has %d items, more than %d", n, most))
		return 0
	default:
		return int(n)
	}
}

func (r *reader) name() string {
	b := r.take(r.u32())
	if !utf8.Valid(b) {
		r.fail(errors.New("a name is not UTF-8"))
		return ""
	}
	return string(b)
}

// sub returns a reader of the next n bytes and skips them.
func (r *reader) sub(n uint32) *reader {
	base := r.base + r.pos
	return &reader{data: r.take(n), base: base, space: r.space, err: r.err}
}
