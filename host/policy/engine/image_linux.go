package engine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"unsafe"
)

// pagemap is the file in which Linux says of each page of the process whose it is; -1
// where that cannot be relied on. It stays open as long as the process runs.
var pagemap = sync.OnceValue(func() int {
	fd, err := syscall.Open("/proc/self/pagemap", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	if !tracks(fd) {
		_ = syscall.Close(fd) // only read
		return -1
	}
	return fd
})

// tracks tries out what restoring relies on: that a private mapping shows a file's pages
// until it is written to, that it shows them again when its own are given back, and that
// the page map tells written pages from others. Not every kernel that says it is Linux is.
func tracks(pagemap int) bool {
	const pages, ofFile, written, behind = 6, 4, 1, 5
	if os.Getpagesize() != blockBytes {
		return false
	}
	content, file, err := makeFile(ofFile * blockBytes)
	if err != nil {
		return false
	}
	defer closeFile(file)
	defer release(content)
	content[0], content[written*blockBytes] = 1, 2
	memory, err := reserve(pages * blockBytes)
	if err != nil {
		return false
	}
	defer release(memory)
	if mapPrivately(memory[:len(content)], file) != nil || !bytes.Equal(memory[:len(content)], content) {
		return false
	}
	memory[written*blockBytes], memory[behind*blockBytes] = 3, 4
	var flags [pages]uint64
	if !readPagesOf(pagemap, memory, flags[:]) {
		return false
	}
	for page, flag := range flags {
		if touched(flag, page < ofFile) != (page == written || page == behind) {
			return false
		}
	}
	return discard(memory) && bytes.Equal(memory[:len(content)], content) && bytes.Equal(memory[len(content):], make([]byte, len(memory)-len(content)))
}

// share returns memory of a file that memories can map privately; no file where the
// kernel does not tell which pages they write to.
func share(size int) ([]byte, int, error) {
	if pagemap() < 0 {
		return nil, -1, nil
	}
	return makeFile(size)
}

// makeFile returns a new file in memory that has no name, and a mapping of it.
func makeFile(size int) ([]byte, int, error) {
	if memfdCreate == 0 {
		return nil, -1, errors.New("the number of memfd_create is not known on this architecture")
	}
	const closeOnExec = 1
	name := []byte("longshore-policy\x00")
	fd, _, errno := syscall.Syscall(memfdCreate, uintptr(unsafe.Pointer(&name[0])), closeOnExec, 0)
	if errno != 0 {
		return nil, -1, fmt.Errorf("making a file in memory: %w", errno)
	}
	file := int(fd)
	if err := syscall.Ftruncate(file, int64(size)); err != nil {
		closeFile(file)
		return nil, -1, fmt.Errorf("making a file of %d bytes in memory: %w", size, err)
	}
	mapped, err := syscall.Mmap(file, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		closeFile(file)
		return nil, -1, fmt.Errorf("mapping a file of %d bytes in memory: %w", size, err)
	}
	return mapped, file, nil
}

func closeFile(file int) {
	if file >= 0 {
		_ = syscall.Close(file) // nothing was written that could be lost
	}
}

// mapPrivately puts a private mapping of a file in the place of whole pages of memory of
// reserve. On error there may be no memory there at all.
func mapPrivately(memory []byte, file int) error { return replace(memory, file, 0) }

// mapZeros puts zeros in the place of whole pages, as mapPrivately does.
func mapZeros(memory []byte) error { return replace(memory, -1, syscall.MAP_ANON) }

func replace(memory []byte, file int, flags uintptr) error {
	if len(memory) == 0 {
		return nil
	}
	_, _, errno := syscall.Syscall6(syscall.SYS_MMAP, address(memory), uintptr(len(memory)),
		syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_FIXED|syscall.MAP_NORESERVE|flags, uintptr(file), 0)
	if errno != 0 {
		return fmt.Errorf("mapping %d bytes: %w", len(memory), errno)
	}
	return nil
}

// readPages asks for the flags of whole pages; false when there is no answer.
func readPages(memory []byte, flags []uint64) bool {
	return readPagesOf(pagemap(), memory, flags)
}

func readPagesOf(pagemap int, memory []byte, flags []uint64) bool {
	const flagBytes = 8
	want := len(memory) / blockBytes * flagBytes
	buffer := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(flags))), len(flags)*flagBytes)[:want]
	n, err := syscall.Pread(pagemap, buffer, int64(address(memory)/blockBytes*flagBytes))
	return err == nil && n == want
}

// address of memory that the Go runtime does not move.
func address(memory []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(memory))) }
