package fuel

import "fmt"

// Instructions that the rewriting reads or writes.
const (
	opUnreachable  = 0x00
	opBlock        = 0x02
	opLoop         = 0x03
	opIf           = 0x04
	opElse         = 0x05
	opEnd          = 0x0b
	opBr           = 0x0c
	opBrIf         = 0x0d
	opBrTable      = 0x0e
	opReturn       = 0x0f
	opCall         = 0x10
	opCallIndirect = 0x11
	opDrop         = 0x1a
	opSelectTyped  = 0x1c
	opLocalGet     = 0x20
	opLocalTee     = 0x22
	opGlobalGet    = 0x23
	opGlobalSet    = 0x24
	opTableGet     = 0x25
	opTableSet     = 0x26
	opMemorySize   = 0x3f
	opMemoryGrow   = 0x40
	opI32Const     = 0x41
	opI64Const     = 0x42
	opF32Const     = 0x43
	opF64Const     = 0x44
	opI64LtS       = 0x53
	opI64Add       = 0x7c
	opI64Sub       = 0x7d
	opI64Shl       = 0x86
	opI64ShrU      = 0x88
	opI64ExtendU   = 0xad
	opRefNull      = 0xd0
	opRefFunc      = 0xd2
	opMisc         = 0xfc
	opVector       = 0xfd

	blockEmpty  = 0x40
	vectorConst = 12
)

// Instructions with the prefix opMisc.
const (
	miscMemoryInit = 8
	miscDataDrop   = 9
	miscMemoryCopy = 10
	miscMemoryFill = 11
	miscTableInit  = 12
	miscElemDrop   = 13
	miscTableCopy  = 14
	miscTableGrow  = 15
	miscTableSize  = 16
	miscTableFill  = 17
)

// instruction is one decoded instruction.
type instruction struct {
	op byte
	// sub is the number after the prefixes opMisc and opVector.
	sub uint32
	// index of the function that is called or referred to.
	index uint32
	// signature is the index of the type of a block or of an indirect call; negative for a block
	// without parameters and with at most one result.
	signature int64
	// labels of a branch.
	labels []uint32
	// weight is the cost; a part of a tick covers partWeight.
	weight int
}

// next decodes an instruction with its immediates. labels is reused.
func (r *reader) next(labels []uint32) instruction {
	i := instruction{op: r.byte(), labels: labels[:0]}
	switch op := i.op; {
	case op == opBlock || op == opLoop || op == opIf:
		i.signature = r.blockType()
	case op == opBr || op == opBrIf:
		i.labels = append(i.labels, r.u32())
	case op == opBrTable:
		for range r.count(1, maxBranches) {
			i.labels = append(i.labels, r.u32())
		}
		i.labels = append(i.labels, r.u32())
	case op == opCall:
		i.index = r.functionIndex()
	case op >= opLocalGet && op <= opLocalTee:
		r.localIndex()
	case op == opGlobalGet || op == opGlobalSet:
		r.globalIndex()
	case op == opTableGet || op == opTableSet:
		r.tableIndex()
	case op == opMemorySize || op == opMemoryGrow:
		r.memoryIndex()
	case op == opRefFunc:
		i.index = r.reference()
	case op == opCallIndirect:
		i.signature = int64(r.typeIndex())
		r.tableIndex()
	case op == opSelectTyped:
		r.valueTypes()
	case op >= 0x28 && op <= 0x3e: // loads and stores
		r.address()
	case op == opI32Const:
		r.s64(5)
	case op == opI64Const:
		r.s64(10)
	case op == opF32Const:
		r.take(4)
	case op == opF64Const:
		r.take(8)
	case op == opRefNull:
		r.nullType()
	case op == opMisc:
		r.misc(&i)
	case op == opVector:
		i.sub = r.vector()
	case plain(op):
	default:
		if r.err == nil {
			r.pos--
			r.fail(unknown(op))
		}
	}
	i.weigh()
	return i
}

// plain reports whether an opcode has no immediates.
func plain(op byte) bool {
	switch op {
	case opUnreachable, 0x01, opElse, opEnd, opReturn, 0x1a, 0x1b, 0xd1:
		return true
	default:
		return op >= 0x45 && op <= 0xc4
	}
}

// unknown names the proposal that an opcode belongs to.
func unknown(op byte) error {
	code := fmt.Sprintf("instruction %#x", op)
	switch op {
	case 0x06, 0x07, 0x08, 0x09, 0x0a, 0x18, 0x19, 0x1f:
		return unsupported("exception handling", code)
	case 0x12, 0x13:
		return unsupported("tail calls", code)
	case 0x14, 0x15, 0xd3, 0xd4, 0xd5, 0xd6:
		return unsupported("typed function references", code)
	case 0xfb:
		return unsupported("garbage collection", code)
	case 0xfe:
		return unsupported("threads", code)
	default:
		return fmt.Errorf("%s is unknown", code)
	}
}

func (r *reader) blockType() int64 {
	t := r.s64(5)
	switch {
	case t >= 0:
		if t >= int64(r.space.types) {
			r.fail(fmt.Errorf("type %d does not exist", t))
		}
	case t == -0x1d || t == -0x1c: // 0x63, 0x64
		r.fail(unsupported("typed function references", "a block type"))
	case t < -0x40:
		r.fail(fmt.Errorf("block type %d is unknown", t))
	}
	return t
}

func (r *reader) misc(i *instruction) {
	i.sub = r.u32()
	switch i.sub {
	case 0, 1, 2, 3, 4, 5, 6, 7: // saturating truncations
	case miscMemoryInit:
		r.dataIndex()
		r.memoryIndex()
	case miscMemoryCopy:
		r.memoryIndex()
		r.memoryIndex()
	case miscTableInit:
		r.elementIndex()
		r.tableIndex()
	case miscTableCopy:
		r.tableIndex()
		r.tableIndex()
	case miscDataDrop:
		r.dataIndex()
	case miscMemoryFill:
		r.memoryIndex()
	case miscElemDrop:
		r.elementIndex()
	case miscTableGrow, miscTableSize, miscTableFill:
		r.tableIndex()
	default:
		r.fail(fmt.Errorf("instruction 0xfc %d is unknown", i.sub))
	}
}

// vector decodes the rest of a SIMD instruction and returns its number. The engine reads only
// one byte of the number, and reads a second byte, which is 1 in the canonical encoding, as a
// nop. Other encodings would have two meanings and are an error.
func (r *reader) vector() uint32 {
	sub := r.byte()
	if sub >= 0x80 {
		if high := r.byte(); high != 1 {
			if high > 1 {
				r.fail(unsupported("relaxed SIMD", fmt.Sprintf("instruction 0xfd %#x", uint(high)<<7|uint(sub&0x7f))))
			} else {
				r.fail(fmt.Errorf("instruction 0xfd %#x is not encoded canonically", sub))
			}
			return 0
		}
	}
	switch {
	case sub <= 11 || sub == 92 || sub == 93: // loads and stores
		r.address()
	case sub == vectorConst || sub == 13: // constant, shuffle
		r.take(16)
	case sub >= 21 && sub <= 34: // lanes
		r.byte()
	case sub >= 84 && sub <= 91: // loads and stores of a lane
		r.address()
		r.byte()
	case vectorReserved(sub):
		r.fail(fmt.Errorf("instruction 0xfd %#x is unknown", sub))
	}
	return uint32(sub)
}

// vectorReserved reports whether a number of a SIMD instruction is not assigned.
func vectorReserved(sub byte) bool {
	switch sub {
	case 0x9a, 0xa2, 0xa5, 0xa6, 0xaf, 0xb0, 0xb2, 0xb3, 0xb4, 0xbb, 0xc2, 0xc5, 0xc6, 0xcf, 0xd0, 0xd2, 0xd3, 0xd4, 0xe2, 0xee:
		return true
	default:
		return false
	}
}
