package engine

import (
	"fmt"
	"syscall"
)

// reserve returns zeroed memory that takes no space before it is touched, and does not
// count as heap.
func reserve(bytes int) ([]byte, error) {
	memory, err := syscall.Mmap(-1, 0, bytes, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserving %d bytes: %w", bytes, err)
	}
	return memory, nil
}

// release gives memory of reserve back. It can only fail for memory that is not.
func release(b []byte) { _ = syscall.Munmap(b) }

// discard zeroes whole pages of reserve's memory by giving them back.
func discard(b []byte) bool { return syscall.Madvise(b, syscall.MADV_DONTNEED) == nil }
