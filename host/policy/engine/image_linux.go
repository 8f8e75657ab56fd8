package engine

import (
	"bytes"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// openPagemap opens the file in which Linux reports the state of each page of the process.
// It returns -1 where restoring cannot rely on it. The file stays open until the process ends.
var openPagemap = sync.OnceValue(func() int {
	fd, err := unix.Open("/proc/self/pagemap", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	if !tracksWrites(fd) {
		closeFile(fd)
		return -1
	}
	return fd
})

// tracksWrites tests what restoring relies on: a private mapping shows the pages of a file
// until they are written to, shows them again after its own are discarded, and the page map
// distinguishes written pages. Not every system that calls itself Linux behaves so.
func tracksWrites(pagemap int) bool {
	const pages, ofFile, written, behind = 6, 4, 1, 5
	if os.Getpagesize() != blockBytes {
		return false
	}
	content := make([]byte, ofFile*blockBytes)
	content[0], content[written*blockBytes] = 1, 2
	file, err := sealedFile(content)
	if err != nil {
		return false
	}
	defer closeFile(file)
	m, err := newMemory(pages * blockBytes)
	if err != nil {
		return false
	}
	defer m.Free()
	if m.mapFile(len(content), file) != nil || !bytes.Equal(m.reserved[:len(content)], content) {
		return false
	}
	m.reserved[written*blockBytes], m.reserved[behind*blockBytes] = 3, 4
	var flags [pages]uint64
	if !readPagesFrom(pagemap, m.reserved, flags[:]) {
		return false
	}
	for page, flag := range flags {
		if isTouched(flag, page < ofFile) != (page == written || page == behind) {
			return false
		}
	}
	return discard(m.reserved) && bytes.Equal(m.reserved[:len(content)], content) &&
		bytes.Equal(m.reserved[len(content):], make([]byte, (pages-ofFile)*blockBytes))
}

// shareContent returns a sealed file with the content, and a read-only mapping of it. The
// file is -1 where the kernel does not report which pages memories write to.
func shareContent(content []byte) (mapping []byte, file int, err error) {
	if openPagemap() < 0 {
		return nil, -1, nil
	}
	if file, err = sealedFile(content); err != nil {
		return nil, -1, err
	}
	if mapping, err = unix.Mmap(file, 0, len(content), unix.PROT_READ, unix.MAP_PRIVATE); err != nil {
		closeFile(file)
		return nil, -1, fmt.Errorf("mapping the state of an instance: %w", err)
	}
	return mapping, file, nil
}

// sealedFile returns a new file in memory with the content. It has no name, and seals keep
// everything, this process included, from changing it.
func sealedFile(content []byte) (file int, err error) {
	if file, err = unix.MemfdCreate("longshore-policy", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING); err != nil {
		return -1, fmt.Errorf("creating a file in memory: %w", err)
	}
	if err := fillAndSeal(file, content); err != nil {
		closeFile(file)
		return -1, err
	}
	return file, nil
}

func fillAndSeal(file int, content []byte) error {
	if err := unix.Ftruncate(file, int64(len(content))); err != nil {
		return fmt.Errorf("sizing a file in memory to %d bytes: %w", len(content), err)
	}
	err := eachBlock(content, func(at int, block []byte) error {
		n, err := unix.Pwrite(file, block, int64(at))
		if err == nil && n != len(block) {
			err = unix.ENOSPC
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("writing a file in memory: %w", err)
	}
	if _, err := unix.FcntlInt(uintptr(file), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL); err != nil {
		return fmt.Errorf("sealing a file in memory: %w", err)
	}
	return nil
}

func closeFile(file int) {
	if file >= 0 {
		_ = unix.Close(file) // nothing was written that could be lost
	}
}

// mapAt puts a private mapping in the place of whole pages of memory: of a file, or of zeros
// when file is -1.
//
// A kernel may unmap the old pages and then fail, which leaves a hole. Another thread could
// get a mapping there, which the guest would then write to and Free would unmap. So the
// range is reserved again, without access, before the error is returned.
func mapAt(memory []byte, file int) error {
	if len(memory) == 0 {
		return nil
	}
	flags := unix.MAP_PRIVATE | unix.MAP_FIXED | unix.MAP_NORESERVE
	if file < 0 {
		flags |= unix.MAP_ANON
	}
	_, err := unix.MmapPtr(file, 0, pointer(memory), uintptr(len(memory)), unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		fillHole(memory)
		return fmt.Errorf("mapping %d bytes: %w", len(memory), err)
	}
	return nil
}

// fillHole reserves the range of a memory that is not mapped any more. It changes nothing
// where something is mapped.
func fillHole(memory []byte) {
	at, err := unix.MmapPtr(-1, 0, pointer(memory), uintptr(len(memory)), unix.PROT_NONE,
		unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE|unix.MAP_FIXED_NOREPLACE)
	if err == nil && at != pointer(memory) {
		_ = unix.MunmapPtr(at, uintptr(len(memory))) // kernels before 4.17 map elsewhere
	}
}

// protect makes whole pages of memory of reserve read-only.
func protect(memory []byte) error {
	if err := unix.Mprotect(memory, unix.PROT_READ); err != nil {
		return fmt.Errorf("protecting %d bytes: %w", len(memory), err)
	}
	return nil
}

// readPages reads the flags of whole pages. It returns false when the kernel does not answer.
func readPages(memory []byte, flags []uint64) bool {
	return readPagesFrom(openPagemap(), memory, flags)
}

func readPagesFrom(pagemap int, memory []byte, flags []uint64) bool {
	const flagBytes = 8
	want := len(memory) / blockBytes * flagBytes
	buffer := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(flags))), len(flags)*flagBytes)[:want]
	n, err := unix.Pread(pagemap, buffer, int64(uintptr(pointer(memory))/blockBytes*flagBytes))
	return err == nil && n == want
}

// pointer is the address of memory that the Go runtime does not move.
func pointer(memory []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(memory)) }
