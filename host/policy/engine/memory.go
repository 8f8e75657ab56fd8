package engine

import (
	"bytes"
	"fmt"
)

// memory is the linear memory of an instance. Its limit is reserved at once, so that it
// never moves; the operating system backs only the pages that were touched. It implements
// wazero's LinearMemory.
type memory struct {
	reserved []byte
	// isRefused is set when a guest asked for more than the limit.
	isRefused bool
}

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
	if m.reserved != nil {
		release(m.reserved)
	}
	m.reserved = nil
}

// clear zeroes the first n bytes.
func (m *memory) clear(n uint64) { clear(m.reserved[:min(n, uint64(len(m.reserved)))]) }

// blockBytes is the unit in which memory is compared. A memory consists of whole blocks.
const blockBytes = 4 << 10

var zeros [blockBytes]byte

// blocks returns a copy of the first size bytes of the memory, block by block: nil for one of zeros,
// which nearly half of them are in a Go guest.
func (m *memory) blocks(size uint64) [][]byte {
	all := make([][]byte, size/blockBytes)
	for n := range all {
		if block := m.block(n); !bytes.Equal(block, zeros[:]) {
			all[n] = bytes.Clone(block)
		}
	}
	return all
}

// restore makes the beginning of the memory equal to these blocks. It writes only those that differ:
// few do, and pages that were never written to take no space.
func (m *memory) restore(all [][]byte) {
	for n, want := range all {
		if want == nil {
			want = zeros[:]
		}
		if have := m.block(n); !bytes.Equal(have, want) {
			copy(have, want)
		}
	}
}

func (m *memory) block(n int) []byte { return m.reserved[n*blockBytes : (n+1)*blockBytes] }
