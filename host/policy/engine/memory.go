package engine

import (
	"bytes"
	"fmt"
	"os"
)

// memory is the linear memory of an instance. Its whole limit is reserved at once, so
// that it never moves; the operating system backs only what was touched. It implements
// wazero's LinearMemory.
type memory struct {
	reserved []byte
	// refused is set when a guest asked for more than the limit.
	refused bool
}

// discardBytes is from where on it is cheaper to give pages back than to clear them.
const discardBytes = 128 << 10

func newMemory(limit uint64) (*memory, error) {
	reserved, err := reserve(int(limit))
	if err != nil {
		return nil, fmt.Errorf("reserving %d MiB of memory: %w", limit>>20, err)
	}
	return &memory{reserved: reserved}, nil
}

// Reallocate implements wazero's LinearMemory: nil means that the memory cannot grow.
func (m *memory) Reallocate(size uint64) []byte {
	if size > uint64(len(m.reserved)) {
		m.refused = true
		return nil
	}
	return m.reserved[:size]
}

// Free implements wazero's LinearMemory. Nothing may use the memory afterwards.
func (m *memory) Free() {
	if m.reserved != nil {
		release(m.reserved)
		m.reserved = nil
	}
}

// clear zeroes the first n bytes.
func (m *memory) clear(n uint64) {
	b := m.reserved[:min(n, uint64(len(m.reserved)))]
	if len(b) < discardBytes || !discard(b) {
		clear(b)
	}
}

// blockBytes is the unit in which memory is compared.
const blockBytes = 4 << 10

var zeros [blockBytes]byte

// restore makes the first size bytes of the memory equal to the image, and to zeros
// behind it, writing only the blocks that differ. Most do not, and comparing is
// several times cheaper than writing. Image and size are multiples of a block.
func (m *memory) restore(image []byte, size uint64) {
	have := m.reserved[:size]
	for at := 0; at < len(have); at += blockBytes {
		want := zeros[:]
		if at < len(image) {
			want = image[at : at+blockBytes]
		}
		if block := have[at : at+blockBytes]; !bytes.Equal(block, want) {
			copy(block, want)
		}
	}
}

// untilZero returns the memory without the blocks of zeros at its end.
func untilZero(memory []byte) []byte {
	for len(memory) > 0 && bytes.Equal(memory[len(memory)-blockBytes:], zeros[:]) {
		memory = memory[:len(memory)-blockBytes]
	}
	return memory
}

// copyBlocks copies the blocks that are not zero. Both are multiples of a block, and
// what is copied to is zero.
func copyBlocks(to, from []byte) {
	for at := 0; at < len(from); at += blockBytes {
		if block := from[at : at+blockBytes]; !bytes.Equal(block, zeros[:]) {
			copy(to[at:], block)
		}
	}
}

// discardZeros gives the pages back that are zero in the image, in a memory that is
// equal to it. It does nothing where a page is not a block: what is given back is always
// whole pages.
func (m *memory) discardZeros(image []byte, size uint64) {
	if os.Getpagesize() != blockBytes {
		return
	}
	have := m.reserved[:size]
	begin := -1 // of a run of zero blocks
	for at := 0; at <= len(have); at += blockBytes {
		zero := at < len(have) && (at >= len(image) || bytes.Equal(image[at:at+blockBytes], zeros[:]))
		switch {
		case zero && begin < 0:
			begin = at
		case !zero && begin >= 0:
			_ = discard(have[begin:at]) // it may cost memory, nothing else
			begin = -1
		}
	}
}
