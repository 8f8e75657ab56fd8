package engine

import (
	"bytes"
	"fmt"
	"os"
	"sync/atomic"
)

// memory is the linear memory of an instance. Its limit is reserved at once, so that it
// never moves; the operating system backs only the pages that were touched. It implements
// wazero's LinearMemory.
type memory struct {
	reserved []byte
	// shared is the image of which the memory's beginning is a private mapping, or nil.
	shared *image
	// isRefused is set when a guest asked for more than the limit.
	isRefused bool
	// isBroken is set when a fixed mapping failed: parts of the range may not be ours.
	isBroken bool
}

// mappingFailed is set when the kernel refused a fixed mapping. From then on memories copy
// images: a range that is broken is never freed.
var mappingFailed atomic.Bool

// discardBytes is the size from which on pages are discarded rather than cleared.
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
		m.isRefused = true
		return nil
	}
	return m.reserved[:size]
}

// Free implements wazero's LinearMemory. Nothing may use the memory afterwards.
func (m *memory) Free() {
	if m.reserved != nil && !m.isBroken {
		release(m.reserved)
	}
	m.reserved = nil
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

// adopt makes the first size bytes of a memory equal to the image, and to zeros behind it.
// The memory shares the image's pages until the guest writes to them. Bytes behind size must
// never have been used. After an error the memory can only be freed.
func (m *memory) adopt(im *image, size uint64) error {
	if old := m.shared; old != nil {
		m.shared = nil
		if err := m.mapFile(len(old.bytes), -1); err != nil {
			return fmt.Errorf("leaving the state of an instance: %w", err)
		}
	}
	if im.file < 0 || mappingFailed.Load() {
		m.restore(im, size)
		return nil
	}
	if err := m.mapFile(len(im.bytes), im.file); err != nil {
		return fmt.Errorf("mapping the state of an instance: %w", err)
	}
	m.shared = im
	if behind := m.reserved[len(im.bytes):size]; len(behind) > 0 && !discard(behind) {
		clear(behind)
	}
	return nil
}

// mapFile maps a file, or zeros, in the place of the first n bytes.
func (m *memory) mapFile(n, file int) error {
	err := mapAt(m.reserved[:n], file)
	if err != nil {
		m.isBroken = true
		mappingFailed.Store(true)
	}
	return err
}

// restore makes the first size bytes of the memory equal to the image, and to zeros behind
// it, and writes only the blocks that differ: few do, and comparing is several times cheaper
// than writing. Where the memory shares the image's pages, only pages that the guest wrote to
// are compared. Image and size are multiples of a block.
func (m *memory) restore(im *image, size uint64) {
	have := m.reserved[:size]
	var pages [trackedPages]uint64
	for at := 0; at < len(have); at += len(pages) * blockBytes {
		part := have[at:min(at+len(pages)*blockBytes, len(have))]
		isTracked := m.shared == im && readPages(part, pages[:])
		for n := range len(part) / blockBytes {
			if block := at + n*blockBytes; !isTracked || isTouched(pages[n], block < len(im.bytes)) {
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

// trackedPages is the number of pages for which the kernel is asked at once.
const trackedPages = 512

// isTouched reports from the kernel's flags of a page of a memory that shares an image's
// pages whether the page may differ from the image. A page that is neither present nor
// swapped out is as it was at first, and so is one that still belongs to the file.
func isTouched(page uint64, inImage bool) bool {
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

// eachBlock calls f for the blocks that are not zero, until it fails. The content is a
// multiple of a block.
func eachBlock(content []byte, f func(at int, block []byte) error) error {
	for at := 0; at < len(content); at += blockBytes {
		if block := content[at : at+blockBytes]; !bytes.Equal(block, zeros[:]) {
			if err := f(at, block); err != nil {
				return err
			}
		}
	}
	return nil
}

// releasePages gives back pages of a memory that is equal to the image and that can be made
// again: those that it shares or could share, otherwise those that are zero. It does nothing
// where a page is not a block.
func (m *memory) releasePages(im *image, size uint64) {
	if os.Getpagesize() != blockBytes || m.shared != nil && m.shared != im {
		return
	}
	have := m.reserved[:size]
	if m.shared == im {
		_ = discard(have) // a failure costs memory, nothing else
		im.releasePages()
		return
	}
	begin := -1 // of a run of zero blocks
	for at := 0; at <= len(have); at += blockBytes {
		isZero := at < len(have) && bytes.Equal(im.block(at), zeros[:])
		switch {
		case isZero && begin < 0:
			begin = at
		case !isZero && begin >= 0:
			_ = discard(have[begin:at]) // as above
			begin = -1
		}
	}
}
