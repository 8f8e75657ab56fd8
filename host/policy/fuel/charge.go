package fuel

import "encoding/binary"

// Shifts that turn the length of a bulk instruction into parts of a tick.
const (
	// bytesShift charges one part of a tick for 512 bytes that are copied or filled. Their pages
	// may have to be allocated.
	bytesShift = 9
	// itemsShift charges one part for 8 table items.
	itemsShift = 3
	// pagesShift charges 64 parts for a page of memory: a negative shift multiplies.
	pagesShift = -6
)

// partBytes is how much memory is filled or copied between two charges.
const partBytes = 256 << 10

// edit copies the code before an instruction, inserts a charge if one is due, and writes the
// replacement of the instruction. It returns the offset up to which the function is copied.
func (w *metering) edit(r *reader, i *instruction, start, copied int) int {
	if i.op == opCall && !w.own(i.index) {
		i.weight = importWeight
	}
	switch i.op {
	case opLoop, opElse, opEnd, opBr, opBrIf, opBrTable, opReturn:
		i.weight += int(r.space.locals) / localsPerUnit
	}
	due := 0
	if i.op != opElse && i.op != opEnd && (w.pending >= threshold || w.pending >= tickWeight && w.forgets(i)) {
		due = w.pending / partWeight
	}
	shift, bulk := bulkShift(i)
	own := (i.op == opCall || i.op == opRefFunc) && w.own(i.index)
	inParts := i.op == opMisc && (i.sub == miscMemoryFill || i.sub == miscMemoryCopy)
	if due > 0 || bulk || own || inParts || i.op == opReturn {
		w.code = append(w.code, r.data[copied:start]...)
		copied = start
	}
	if due > 0 {
		w.code = w.take(w.code, int64(due))
		w.pending -= due * partWeight
	}
	w.pending += i.weight
	w.calls = w.calls || own && i.op == opCall || i.op == opCallIndirect
	switch {
	case bulk:
		w.bulkCharge(shift)
	case inParts && i.sub == miscMemoryFill:
		w.parts = true
		w.code = index(w.code, opCall, w.fill)
		return r.pos
	case inParts:
		w.parts = true
		w.code = index(w.code, opCall, w.copy)
		return r.pos
	case own: // one more function is imported
		w.code = index(w.code, i.op, i.index+1)
		return r.pos
	case i.op == opReturn: // branch to the end, where the pending weight is paid
		w.code = index(w.code, opBr, uint32(len(w.controls)-1))
		return r.pos
	}
	return copied
}

// forgets reports whether the pending weight is dropped after an instruction: the tick of a
// loop's head or a function's entry covers less than a tick, and some instructions end the
// path. A weight of a tick or more must be charged before the instruction.
func (w *metering) forgets(i *instruction) bool {
	switch i.op {
	case opLoop, opReturn, opCallIndirect:
		return true
	case opCall:
		return w.own(i.index)
	case opBr, opBrIf, opBrTable:
		for _, label := range i.labels {
			if int64(label) < int64(len(w.controls)) && w.controls[len(w.controls)-1-int(label)].op == opLoop {
				return true
			}
		}
	}
	return false
}

// index appends an instruction with an index.
func index(c []byte, op byte, n uint32) []byte {
	return binary.AppendUvarint(append(c, op), uint64(n))
}

// take appends "subtract n parts of a tick; call the host if the fuel is negative".
func (w *metering) take(c []byte, n int64) []byte {
	c = index(c, opGlobalGet, w.fuel)
	c = appendConst64(c, n)
	return w.check(append(c, opI64Sub))
}

// check appends "set the fuel to the number on the stack; call the host if it is negative".
func (w *metering) check(c []byte) []byte {
	c = index(c, opLocalTee, w.after)
	c = index(c, opGlobalSet, w.fuel)
	c = index(c, opLocalGet, w.after)
	c = append(c, opI64Const, 0, opI64LtS, opIf, blockEmpty)
	return append(index(c, opCall, w.look), opEnd)
}

// heldStack is the part of the stack that a function with calls reserves at its entry and
// releases at its end. It bounds the depth of calls, and with it the engine's stack: a frame
// needs about 8 bytes for each local and for each value on the stack during a call, and a body
// has no more of these values than bytes.
func heldStack(locals uint64, bodyBytes int) int64 { return 64 + 4*int64(locals) + int64(bodyBytes)/16 }

// hold appends "reserve n of the stack, trap if it is negative".
func (w *metering) hold(c []byte, n int64) []byte {
	c = index(c, opGlobalGet, w.stack)
	c = append(appendConst64(c, n), opI64Sub)
	c = index(c, opGlobalSet, w.stack)
	c = index(c, opGlobalGet, w.stack)
	return append(c, opI64Const, 0, opI64LtS, opIf, blockEmpty, opUnreachable, opEnd)
}

// release appends "release n of the stack".
func (w *metering) release(c []byte, n int64) []byte {
	c = index(c, opGlobalGet, w.stack)
	c = append(appendConst64(c, n), opI64Add)
	return index(c, opGlobalSet, w.stack)
}

// bulkShift returns the shift of an instruction whose cost depends on the length on top of the
// stack. Filling and copying memory are not among them: they are done in parts.
func bulkShift(i *instruction) (shift int, ok bool) {
	switch {
	case i.op == opMemoryGrow:
		return pagesShift, true
	case i.op != opMisc:
		return 0, false
	}
	switch i.sub {
	case miscMemoryInit:
		return bytesShift, true
	case miscTableInit, miscTableCopy, miscTableGrow, miscTableFill:
		return itemsShift, true
	default:
		return 0, false
	}
}

// bulkCharge appends a charge of the length on top of the stack, an i32, shifted.
func (w *metering) bulkCharge(shift int) {
	w.bulk = true
	c := index(w.code, opLocalTee, w.temporary)
	w.code = w.length(c, w.temporary, shift)
}

// length appends a charge of one part and a length, a local variable of type i32, shifted.
func (w *metering) length(c []byte, local uint32, shift int) []byte {
	c = index(c, opGlobalGet, w.fuel)
	c = index(c, opLocalGet, local)
	c = append(c, opI64ExtendU)
	if shift >= 0 {
		c = append(appendConst64(c, int64(shift)), opI64ShrU)
	} else {
		c = append(appendConst64(c, int64(-shift)), opI64Shl)
	}
	c = append(appendConst64(c, 1), opI64Add)
	return w.check(append(c, opI64Sub))
}

// appendConst64 appends i64.const with a number that is not negative.
func appendConst64(c []byte, n int64) []byte { return appendSigned(append(c, opI64Const), n) }

// appendSigned appends a number that is not negative as a signed one.
func appendSigned(c []byte, n int64) []byte {
	for ; n >= 0x40; n >>= 7 {
		c = append(c, byte(n&0x7f)|0x80)
	}
	return append(c, byte(n))
}
