package engine

import "runtime"

// image is the memory of a snapshot, as far as it is not zero. It is immutable and lies
// outside the Go heap, where it would make the collector wait for twice its size. It
// takes no space for blocks of zeros. It is given back after it is collected, so whoever
// reads it keeps it alive.
type image struct {
	bytes []byte
	// file is what bytes are a mapping of, for memories to map it, too; negative when they
	// must copy it.
	file int
}

// sharedBytes is from which size of a memory on its pages are shared with the image: of a
// smaller one all is compared in less time than the operating system takes to answer.
const sharedBytes = 256 << 10

// newImage returns an image for memories of the given size, with the content copied.
func newImage(content []byte, size uint64) (*image, error) {
	im := &image{file: -1}
	if len(content) == 0 {
		return im, nil
	}
	var err error
	if size >= sharedBytes {
		im.bytes, im.file, err = share(len(content))
	}
	if im.file < 0 || err != nil {
		im.file = -1
		if im.bytes, err = reserve(len(content)); err != nil {
			return nil, err
		}
	}
	copyBlocks(im.bytes, content)
	im.rest()
	runtime.AddCleanup(im, image.free, *im)
	return im, nil
}

// rest gives back the pages by which bytes are mapped, where they are a file's: memories map
// the same ones, and a process would count them twice. What is read again comes back.
func (im *image) rest() {
	if im.file >= 0 {
		_ = discard(im.bytes) // it may cost memory, nothing else
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
