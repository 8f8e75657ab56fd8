package engine

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// isMapped reports whether all pages of a range are mapped.
func isMapped(memory []byte) bool {
	resident := make([]byte, len(memory)/blockBytes)
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(pointer(memory)), uintptr(len(memory)), uintptr(unsafe.Pointer(&resident[0])))
	return errno == 0
}

func TestImagesAreReadOnly(t *testing.T) {
	im, err := newImage(bytes.Repeat([]byte{1}, 2*blockBytes), sharedBytes)
	require.NoError(t, err)
	if im.file < 0 {
		t.Skip("the kernel does not report which pages were written to")
	}
	t.Run("the file cannot be written to, resized or unsealed", func(t *testing.T) {
		_, err := unix.Pwrite(im.file, []byte{2}, 0)
		require.ErrorIs(t, err, unix.EPERM)
		require.ErrorIs(t, unix.Ftruncate(im.file, blockBytes), unix.EPERM)
		require.ErrorIs(t, unix.Ftruncate(im.file, 4*blockBytes), unix.EPERM)
		_, err = unix.FcntlInt(uintptr(im.file), unix.F_ADD_SEALS, unix.F_SEAL_WRITE)
		require.ErrorIs(t, err, unix.EPERM)
	})
	t.Run("nor mapped so that writes reach it", func(t *testing.T) {
		_, err := unix.Mmap(im.file, 0, blockBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		require.Error(t, err)
	})
	t.Run("the mapping cannot be written to, whether it is a file's or a copy", func(t *testing.T) {
		copied, err := newImage(bytes.Repeat([]byte{1}, blockBytes), pageBytes)
		require.NoError(t, err)
		require.Negative(t, copied.file)
		for _, im := range []*image{im, copied} {
			// The kernel writes for us and fails where we would crash.
			var pipe [2]int
			require.NoError(t, unix.Pipe(pipe[:]))
			_, err := unix.Write(pipe[1], []byte{2})
			require.NoError(t, err)
			_, err = unix.Read(pipe[0], im.bytes[:1])
			require.ErrorIs(t, err, unix.EFAULT)
			assert.NoError(t, errors.Join(unix.Close(pipe[0]), unix.Close(pipe[1])))
		}
	})
}

func TestAFailedMappingLeavesNoHole(t *testing.T) {
	const size = 8 * blockBytes
	t.Run("pages that are no longer mapped are reserved again, without access", func(t *testing.T) {
		memory, err := unix.MmapPtr(-1, 0, nil, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		require.NoError(t, err)
		b := unsafe.Slice((*byte)(memory), size)
		hole := b[2*blockBytes : 5*blockBytes]
		require.NoError(t, unix.MunmapPtr(pointer(hole), uintptr(len(hole))))
		require.False(t, isMapped(b))
		fillHole(hole)
		assert.True(t, isMapped(b))
		b[0] = 1
		fillHole(b[:blockBytes])
		assert.Equal(t, byte(1), b[0], "what is mapped stays")
		require.NoError(t, unix.MunmapPtr(memory, size))
	})
	t.Run("a memory whose mapping failed is never unmapped, and later ones copy", func(t *testing.T) {
		t.Cleanup(func() { mappingFailed.Store(false) })
		content := bytes.Repeat([]byte{1}, size)
		notMappable, err := os.Open("/proc/self")
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, notMappable.Close()) })
		im := &image{bytes: content, file: int(notMappable.Fd())}
		broken, err := newMemory(sharedBytes)
		require.NoError(t, err)
		reserved := broken.reserved
		require.Error(t, broken.adopt(im, size))
		broken.Free()
		assert.True(t, isMapped(reserved))
		next, err := newMemory(sharedBytes)
		require.NoError(t, err)
		t.Cleanup(next.Free)
		require.NoError(t, next.adopt(im, size))
		assert.Equal(t, content, next.reserved[:size])
		assert.Nil(t, next.shared)
	})
}
