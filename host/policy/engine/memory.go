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
	// shared is the image of whose file the memory's beginning is a private mapping; nil
	// when it is not.
	shared *image
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

// adopt makes the first size bytes of a memory equal to the image, and to zeros behind
// it, so that they share the image's pages until the guest writes to them. What lies
// behind size must never have been used. On error nothing may use the memory but Free.
func (m *memory) adopt(im *image, size uint64) error {
	if old := m.shared; old != nil {
		m.shared = nil
		if err := mapZeros(m.reserved[:len(old.bytes)]); err != nil {
			return fmt.Errorf("leaving the state of an instance: %w", err)
		}
	}
	if im.file < 0 {
		m.restore(im, size)
		return nil
	}
	if err := mapPrivately(m.reserved[:len(im.bytes)], im.file); err != nil {
		return fmt.Errorf("mapping the state of an instance: %w", err)
	}
	m.shared = im
	if behind := m.reserved[len(im.bytes):size]; len(behind) > 0 && !discard(behind) {
		clear(behind)
	}
	return nil
}

// restore makes the first size bytes of the memory equal to the image, and to zeros
// behind it, writing only the blocks that differ. Most do not, and comparing is
// several times cheaper than writing. Where the memory shares the image's pages, only
// those are compared that the guest ever wrote to. Image and size are multiples of a
// block.
func (m *memory) restore(im *image, size uint64) {
	have := m.reserved[:size]
	var pages [trackedPages]uint64
	for at := 0; at < len(have); at += len(pages) * blockBytes {
		part := have[at:min(at+len(pages)*blockBytes, len(have))]
		tracked := m.shared == im && readPages(part, pages[:])
		for n := range len(part) / blockBytes {
			if block := at + n*blockBytes; !tracked || touched(pages[n], block < len(im.bytes)) {
				restoreBlock(have[block:block+blockBytes], im.block(block))
			}
		}
	}
}

func restoreBlock(have, want []byte) {
	if !bytes.Equal(have, want) {
		copy(have, want)
	}
}

// trackedPages is for how many pages the operating system is asked at once.
const trackedPages = 512

// touched tells from what the operating system says of a page of a memory that shares
// an image's pages whether it may differ from the image: a page that is neither present
// nor swapped out is what it was at first, and so is one that still belongs to the file.
func touched(page uint64, inImage bool) bool {
	const presentOrSwapped, ofFile = 3 << 62, 1 << 61
	return page&presentOrSwapped != 0 && (!inImage || page&ofFile == 0)
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

// rest gives pages back that can be made again, in a memory that is equal to the image:
// all of those that it shares or could share, else those that are zero. It does nothing
// where a page is not a block: what is given back is always whole pages.
func (m *memory) rest(im *image, size uint64) {
	if os.Getpagesize() != blockBytes || m.shared != nil && m.shared != im {
		return
	}
	have := m.reserved[:size]
	if m.shared == im {
		_ = discard(have) // it may cost memory, nothing else
		im.rest()
		return
	}
	begin := -1 // of a run of zero blocks
	for at := 0; at <= len(have); at += blockBytes {
		zero := at < len(have) && bytes.Equal(im.block(at), zeros[:])
		switch {
		case zero && begin < 0:
			begin = at
		case !zero && begin >= 0:
			_ = discard(have[begin:at]) // as above
			begin = -1
		}
	}
}
