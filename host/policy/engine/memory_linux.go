package engine

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// reserve returns zeroed memory that takes no space before it is touched and is not part of
// the Go heap.
func reserve(bytes int) ([]byte, error) {
	memory, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserving %d bytes: %w", bytes, err)
	}
	return memory, nil
}

// release unmaps memory of reserve.
func release(b []byte) { _ = unix.Munmap(b) }
