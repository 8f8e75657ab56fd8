package engine

import "runtime"

// image is the memory of a snapshot up to its last block that is not zero. It is read-only
// and lies outside the Go heap, of which it would raise the garbage collector's target. It
// is freed after it is collected, so a reader keeps it alive.
type image struct {
	bytes []byte
	// file is the sealed file of which bytes is a mapping and which memories map, too. It is
	// negative when memories must copy bytes.
	file int
}

// sharedBytes is the size of a memory from which on its pages are shared with the image. A
// smaller one is compared in less time than asking for its written pages takes.
const sharedBytes = 256 << 10

// newImage returns an image of the content for memories of the given size.
func newImage(content []byte, size uint64) (*image, error) {
	im := &image{file: -1}
	if len(content) == 0 {
		return im, nil
	}
	var err error
	if size >= sharedBytes {
		im.bytes, im.file, err = shareContent(content)
	}
	if im.file < 0 || err != nil {
		im.file = -1
		if im.bytes, err = copyContent(content); err != nil {
			return nil, err
		}
	}
	runtime.AddCleanup(im, image.free, *im)
	return im, nil
}

// copyContent returns read-only memory with the content.
func copyContent(content []byte) ([]byte, error) {
	b, err := reserve(len(content))
	if err != nil {
		return nil, err
	}
	_ = eachBlock(content, func(at int, block []byte) error {
		copy(b[at:], block)
		return nil
	})
	if err := protect(b); err != nil {
		release(b)
		return nil, err
	}
	return b, nil
}

// releasePages gives back the pages of the mapping: memories map the same ones, and the
// process would count them twice. The kernel maps them again when they are read.
func (im *image) releasePages() {
	if im.file >= 0 {
		_ = discard(im.bytes) // a failure costs memory, nothing else
	}
}

// block returns the block at an address, a multiple of a block: zeros behind the end.
func (im *image) block(at int) []byte {
	if at >= len(im.bytes) {
		return zeros[:]
	}
	return im.bytes[at : at+blockBytes]
}

func (im image) free() {
	release(im.bytes)
	closeFile(im.file)
}
