package engine

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMemoriesAreResetToTheirImage writes at random, as a hostile guest may, to
// memories that share their image's pages and to those that copied them.
func TestMemoriesAreResetToTheirImage(t *testing.T) {
	const size = 700 * blockBytes
	random := rand.New(rand.NewPCG(1, 2))
	content := make([]byte, size)
	for at := 0; at < len(content)-100*blockBytes; at++ {
		if at/blockBytes%5 != 3 { // with blocks of zeros in between, and a hundred behind
			content[at] = byte(random.Uint32())
		}
	}
	for name, without := range map[string]bool{"pages are shared": false, "pages are copied": true} {
		t.Run(name, func(t *testing.T) {
			im, err := newImage(untilZero(content), size)
			require.NoError(t, err)
			if !without && im.file < 0 {
				t.Skip("the kernel does not report which pages were written to")
			}
			if without {
				im.file = -1
			}
			memories := make([]*memory, 2)
			for n := range memories {
				memories[n], err = newMemory(size + 50*blockBytes)
				require.NoError(t, err)
				t.Cleanup(memories[n].Free)
				copy(memories[n].reserved, bytes.Repeat([]byte{7}, size)) // as data segments do
				require.NoError(t, memories[n].adopt(im, size))
				require.True(t, bytes.Equal(content, memories[n].reserved[:size]), "it is equal to the image at first")
			}
			written, other := memories[0], memories[1]
			for round := range 200 {
				for range random.IntN(60) {
					at := random.IntN(size)
					written.reserved[at] ^= byte(random.Uint32())
				}
				if round%50 == 49 {
					clear(written.reserved[:size])
				}
				require.True(t, bytes.Equal(content, other.reserved[:size]), "memories do not see each other's writes")
				written.restore(im, size)
				require.True(t, bytes.Equal(content, written.reserved[:size]), "round %d", round)
				if round%20 == 19 {
					written.releasePages(im, size)
					require.True(t, bytes.Equal(content, written.reserved[:size]), "it is the same after its pages were released")
				}
			}
			assert.True(t, bytes.Equal(untilZero(content), im.bytes), "the image does not change")

			// The state of the module changes once, when it was warmed up.
			next := make([]byte, size)
			copy(next, bytes.Repeat([]byte{9}, 300*blockBytes))
			second, err := newImage(untilZero(next), size)
			require.NoError(t, err)
			if without {
				second.file = -1
			}
			require.NoError(t, written.adopt(second, size))
			for range 2 {
				require.True(t, bytes.Equal(next, written.reserved[:size]), "it is the new state, and no page of the old one comes back")
				written.releasePages(second, size)
			}
			written.restore(im, size)
			require.True(t, bytes.Equal(content, written.reserved[:size]), "a state whose pages it does not share is copied")
			written.releasePages(im, size)
			require.True(t, bytes.Equal(content, written.reserved[:size]))
		})
	}
}

// TestSmallMemoriesAreCopied since comparing them is cheaper than asking.
func TestSmallMemoriesAreCopied(t *testing.T) {
	im, err := newImage(bytes.Repeat([]byte{1}, blockBytes), pageBytes)
	require.NoError(t, err)
	assert.Negative(t, im.file)
	none, err := newImage(nil, sharedBytes)
	require.NoError(t, err)
	assert.Empty(t, none.bytes)
	assert.Equal(t, zeros[:], none.block(0))
}

// TestImagesAreFreed shows that the process does not collect the images of former modules.
func TestImagesAreFreed(t *testing.T) {
	shared := func() int {
		links, _ := filepath.Glob("/proc/self/fd/*") // Only a malformed pattern is an error.
		return len(slices.DeleteFunc(links, func(link string) bool {
			target, err := os.Readlink(link)
			return err != nil || !strings.HasPrefix(target, "/memfd:longshore-policy")
		}))
	}
	before := shared()
	images := make([]*image, 20)
	for n := range images {
		var err error
		images[n], err = newImage(bytes.Repeat([]byte{1}, blockBytes), sharedBytes)
		require.NoError(t, err)
	}
	if images[0].file < 0 {
		t.Skip("the kernel does not report which pages were written to")
	}
	require.GreaterOrEqual(t, shared(), len(images))
	runtime.KeepAlive(images)
	clear(images)
	require.Eventually(t, func() bool { runtime.GC(); return shared() <= before }, time.Minute, time.Millisecond)
}

func BenchmarkRestore(b *testing.B) {
	const size = 3 << 20
	for name, share := range map[string]bool{"shared": true, "copied": false} {
		b.Run(name, func(b *testing.B) {
			im, err := newImage(bytes.Repeat([]byte{1}, size), size)
			require.NoError(b, err)
			if !share {
				im.file = -1
			}
			m, err := newMemory(size)
			require.NoError(b, err)
			defer m.Free()
			require.NoError(b, m.adopt(im, size))
			for b.Loop() {
				for page := range 40 {
					m.reserved[page*19*blockBytes]++
				}
				m.restore(im, size)
			}
		})
	}
}
