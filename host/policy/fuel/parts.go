package fuel

import "encoding/binary"

// Instructions of the functions below.
const (
	opLocalSet = 0x21
	opI32LeU   = 0x4d
	opI32Add   = 0x6a
	opI32Sub   = 0x6b
)

// partTypes is the signature of memory.fill and memory.copy as functions.
var partTypes = []ValueType{I32, I32, I32}

// partFunctions returns the bodies of the functions that fill and copy memory in parts of
// partBytes, with a charge before each. A range that exceeds the memory traps, as in
// the original instruction, but the parts within the memory may have been written.
func (w *metering) partFunctions() []byte {
	w.after = uint32(len(partTypes))
	return append(sized(w.fillBody()), sized(w.copyBody())...)
}

func sized(b []byte) []byte {
	return append(binary.AppendUvarint(make([]byte, 0, len(b)+4), uint64(len(b))), b...)
}

func gets(c []byte, locals ...uint32) []byte {
	for _, l := range locals {
		c = index(c, opLocalGet, l)
	}
	return c
}

// partLength appends i32.const partBytes.
func partLength(c []byte) []byte { return appendSigned(append(c, opI32Const), partBytes) }

// advance appends "add partBytes to a local variable", or with another opcode subtract it.
func advance(c []byte, op byte, local uint32) []byte {
	c = partLength(gets(c, local))
	return index(append(c, op), opLocalSet, local)
}

// whole appends the code for a length of at most one part.
func (w *metering) whole(c []byte, instruction ...byte) []byte {
	c = partLength(gets(c, 2))
	c = append(c, opI32LeU, opIf, blockEmpty)
	c = gets(w.length(c, 2, bytesShift), 0, 1, 2)
	c = append(c, instruction...)
	return append(c, opReturn, opEnd)
}

func (w *metering) fillBody() []byte {
	fill := []byte{opMisc, miscMemoryFill, 0}
	c := w.whole([]byte{1, 1, byte(I64), opLoop, blockEmpty}, fill...)
	c = w.take(c, partBytes>>bytesShift)
	c = append(partLength(gets(c, 0, 1)), fill...)
	c = advance(advance(c, opI32Add, 0), opI32Sub, 2)
	return append(c, opBr, 0, opEnd, opEnd)
}

// copyBody copies from the end when the target follows the source, since they may overlap.
func (w *metering) copyBody() []byte {
	instruction := []byte{opMisc, miscMemoryCopy, 0, 0}
	c := w.whole([]byte{1, 1, byte(I64), opLoop, blockEmpty}, instruction...)
	c = w.take(c, partBytes>>bytesShift)
	c = advance(c, opI32Sub, 2)
	c = append(gets(c, 0, 1), opI32LeU, opIf, blockEmpty)
	c = append(partLength(gets(c, 0, 1)), instruction...)
	c = advance(advance(c, opI32Add, 0), opI32Add, 1)
	c = append(c, opElse)
	for _, l := range []uint32{0, 1} {
		c = append(gets(c, l, 2), opI32Add)
	}
	c = append(partLength(c), instruction...)
	return append(c, opEnd, opBr, 0, opEnd, opEnd)
}
