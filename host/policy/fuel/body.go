package fuel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

const (
	// Stride is the number of instructions that may run before another tick is due,
	// beside the one at every function entry and every loop iteration. Divisions and
	// square roots count for several.
	Stride = 48
	// maxLocals bounds the local variables of a function, as JavaScript engines do:
	// an engine allocates them from a count that takes three bytes.
	maxLocals = 50_000
	// maxNesting bounds the nesting of blocks.
	maxNesting = 4_096
	// maxLoopNesting bounds the nesting of loops.
	maxLoopNesting = 256
	// maxBodyBytes bounds the code of a function.
	maxBodyBytes = 256 << 10
	// maxBranches bounds the blocks and branch targets of a function.
	maxBranches = 10_000
	// maxComplexity bounds the sum over all functions. A large standard Go guest has
	// some fifty million.
	maxComplexity = 1_000_000_000
)

// complexity estimates how long an engine compiles a function, which takes wazero time
// that grows with the square of both: a function at both bounds takes seconds, and
// one of a megabyte, which fits any limit on the module's size, would take minutes.
func complexity(branches, bytes int) int { return branches*branches + bytes/16*(bytes/16) }

// Shifts that turn the length of a bulk instruction into ticks.
const (
	// bytesShift: a tick for 64 bytes copied or filled.
	bytesShift = 6
	// itemsShift: a tick for 8 table items.
	itemsShift = 3
	// pagesShift: sixteen ticks for a page of memory, negative shifts multiply.
	pagesShift = -4
)

// control is an open block while a function is rewritten.
type control struct {
	op byte
	// before is the pending count in front of an if, from which its else begins.
	before int
	// exit is the largest pending count of the branches to the block's end.
	exit int
}

// metering rewrites the functions of one module.
type metering struct {
	// charge is false when a module is only made ready for snapshots.
	charge bool
	// global is the index of the fuel global.
	global uint32
	module *Module

	code     []byte
	controls []control
	labels   []uint32
	// pending is an upper bound of the instructions that have run since the last
	// tick, on whatever path this point was reached.
	pending int
	// temporary is the index of the extra local of type i32, used only when bulk is set.
	temporary uint32
	bulk      bool
	// calls says that the function calls others of the module.
	calls bool
	head  []byte
	// signatures are the module's, and those that blocks of ours need.
	signatures []Signature

	// loops and branches are counts in the function at hand: open loops, and blocks and
	// branch targets; complexity is a sum over all functions.
	loops, branches, complexity int

	// unrestorable is for Rewritten; noted are the instructions in it.
	unrestorable []string
	noted        map[string]bool
}

// note remembers an instruction that changes what a snapshot does not cover.
func (w *metering) note(i *instruction, index int) {
	name := ""
	switch i.op {
	case opTableSet:
		name = "table.set"
	case opMisc:
		name = unrestorable[i.sub]
	}
	if name == "" || w.noted[name] {
		return
	}
	if w.noted == nil {
		w.noted = map[string]bool{}
	}
	w.noted[name] = true
	w.unrestorable = append(w.unrestorable, fmt.Sprintf("%s in function %d", name, w.module.importedFunctions+index))
}

// unrestorable are the instructions behind the prefix opMisc that change tables or
// drop segments.
var unrestorable = map[uint32]string{
	miscDataDrop: "data.drop", miscElemDrop: "elem.drop", miscTableInit: "table.init",
	miscTableCopy: "table.copy", miscTableGrow: "table.grow", miscTableFill: "table.fill",
}

// function appends the rewritten body of a function, with its size, to out.
func (w *metering) function(out []byte, index int) ([]byte, error) {
	b := w.module.bodies[index]
	signature := w.module.signatures[w.module.functions[w.module.importedFunctions+index]]
	s := w.module.space
	r := &reader{data: b.data, base: b.base, space: &s}
	groups := r.count(2, maxLocals)
	first := r.pos
	locals := uint64(len(signature.Params))
	for range groups {
		locals += uint64(r.u32())
		r.valueType()
	}
	if locals > maxLocals {
		r.fail(fmt.Errorf("a function has %d local variables, more than %d", locals, maxLocals))
	}
	if r.err != nil {
		return nil, r.err
	}
	s.locals = uint32(locals)
	declarations := b.data[first:r.pos]
	w.code, w.controls = w.code[:0], w.controls[:0]
	w.temporary, w.bulk, w.calls, w.pending = uint32(locals), false, false, 0
	w.loops, w.branches = 0, 0
	if err := w.instructions(r, index); err != nil {
		return nil, err
	}
	w.complexity += complexity(w.branches, len(b.data))
	if len(b.data) > maxBodyBytes || w.branches > maxBranches || w.complexity > maxComplexity {
		return nil, fmt.Errorf("%d bytes and %d branches would take too long to compile: split it up", len(b.data), w.branches)
	}
	head := binary.AppendUvarint(w.head[:0], uint64(groups)+one(w.bulk))
	head = append(head, declarations...)
	if w.bulk {
		head = append(head, 1, byte(I32))
	}
	var tail []byte
	if w.charge {
		// Locals are zeroed on entry, which takes time in proportion.
		entry := 1 + int64(locals/Stride)
		if w.calls {
			held := heldTicks(locals, len(b.data))
			head = append(w.tick(head, entry+held), opBlock)
			head = append(head, w.blockType(signature.Results)...)
			tail = append(w.refund(nil, held), opEnd)
		} else {
			head = w.tick(head, entry)
		}
	}
	w.head = head
	out = binary.AppendUvarint(out, uint64(len(head)+len(w.code)+len(tail)))
	out = append(out, head...)
	out = append(out, w.code...)
	return append(out, tail...), nil
}

// heldTicks is what a function that calls others takes at its entry and gives back at
// its end. So the fuel bounds the depth of calls, and with it the engine's stack: a
// frame takes some 8 bytes for each local and each value that waits across a call, and
// a body cannot push more of those than it has bytes.
func heldTicks(locals uint64, bodyBytes int) int64 { return 64 + 4*int64(locals) + int64(bodyBytes)/16 }

// blockType encodes the type of a block without parameters.
func (w *metering) blockType(results []ValueType) []byte {
	switch len(results) {
	case 0:
		return []byte{blockEmpty}
	case 1:
		return []byte{byte(results[0])}
	}
	for i, s := range w.signatures {
		if len(s.Params) == 0 && slices.Equal(s.Results, results) {
			return appendSigned(nil, int64(i))
		}
	}
	w.signatures = append(w.signatures, Signature{Results: results})
	return appendSigned(nil, int64(len(w.signatures)-1))
}

// refund appends "give n ticks back".
func (w *metering) refund(c []byte, n int64) []byte {
	c = append(c, opGlobalGet)
	c = binary.AppendUvarint(c, uint64(w.global))
	c = append(appendConst64(c, n), opI64Add, opGlobalSet)
	return binary.AppendUvarint(c, uint64(w.global))
}

func one(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// instructions copies a function's instructions and puts the charges between them.
func (w *metering) instructions(r *reader, index int) error {
	w.controls = append(w.controls, control{op: opBlock})
	copied := r.pos
	for len(w.controls) > 0 {
		if r.err == nil && r.rest() == 0 {
			r.fail(errors.New("a function does not end"))
		}
		start := r.pos
		i := r.next(w.labels)
		w.labels = i.labels
		if r.err == nil && (len(w.controls) > maxNesting || w.loops > maxLoopNesting) {
			r.fail(fmt.Errorf("blocks are nested more than %d deep, or loops more than %d", maxNesting, maxLoopNesting))
		}
		if r.err != nil {
			return r.err
		}
		if i.op == opTableSet || i.op == opMisc {
			w.note(&i, index)
		}
		if !w.charge {
			if err := w.nest(&i); err != nil {
				return err
			}
			continue
		}
		// A charge stands in front of what it pays for, except that a loop pays inside.
		w.pending += i.weight
		if shift, ok := bulkShift(&i); ok {
			w.code = append(w.code, r.data[copied:start]...)
			copied = start
			w.bulkCharge(shift)
		} else if w.pending >= Stride && i.op != opElse && i.op != opEnd {
			w.code = append(w.code, r.data[copied:start]...)
			copied = start
			w.code = w.tick(w.code, 1)
			w.pending = i.weight
		}
		switch i.op {
		case opReturn:
			// Leave by the end, where held ticks are given back.
			w.code = append(w.code, r.data[copied:start]...)
			w.code = append(w.code, opBr)
			w.code = binary.AppendUvarint(w.code, uint64(len(w.controls)-1))
			copied = r.pos
		case opCall:
			w.calls = w.calls || int64(i.index) >= int64(w.module.importedFunctions)
		case opCallIndirect:
			w.calls = true
		}
		if err := w.nest(&i); err != nil {
			return err
		}
		if i.op == opLoop {
			w.code = append(w.code, r.data[copied:r.pos]...)
			copied = r.pos
			w.code = w.tick(w.code, 1)
		}
	}
	if r.rest() > 0 {
		r.fail(errors.New("there are bytes behind the end of a function"))
	}
	w.code = append(w.code, r.data[copied:]...)
	return r.err
}

// nest follows the control flow: it keeps the open blocks and what is pending where
// paths part and meet.
func (w *metering) nest(i *instruction) error {
	switch i.op {
	case opBlock, opIf:
		w.branches++
		w.controls = append(w.controls, control{op: i.op, before: w.pending})
	case opLoop:
		w.branches++
		w.loops++
		w.controls = append(w.controls, control{op: i.op})
		w.pending = 0
	case opElse:
		top := &w.controls[len(w.controls)-1]
		if top.op != opIf {
			return errors.New("an else stands without if")
		}
		top.exit = max(top.exit, w.pending)
		top.op, w.pending = opElse, top.before
	case opEnd:
		top := w.controls[len(w.controls)-1]
		w.controls = w.controls[:len(w.controls)-1]
		w.pending = max(w.pending, top.exit)
		if top.op == opLoop {
			w.loops--
		}
		if top.op == opIf {
			w.pending = max(w.pending, top.before)
		}
	case opBr, opBrIf, opBrTable:
		w.branches += len(i.labels)
		for _, label := range i.labels {
			if int64(label) >= int64(len(w.controls)) {
				return fmt.Errorf("a branch leaves %d blocks where %d are open", label+1, len(w.controls))
			}
			// A branch to a loop pays at the loop's head.
			target := &w.controls[len(w.controls)-1-int(label)]
			if target.op != opLoop {
				target.exit = max(target.exit, w.pending)
			}
		}
		if i.op != opBrIf {
			w.pending = 0 // what follows is reached in another way, or never
		}
	case opReturn, opUnreachable, opCall, opCallIndirect:
		// A called function has paid at its entry.
		w.pending = 0
	}
	return nil
}

// tick appends "take n ticks, trap when there are less than none".
func (w *metering) tick(c []byte, n int64) []byte {
	c = append(c, opGlobalGet)
	c = binary.AppendUvarint(c, uint64(w.global))
	c = appendConst64(c, n)
	c = append(c, opI64Sub, opGlobalSet)
	c = binary.AppendUvarint(c, uint64(w.global))
	return w.trap(c)
}

// trap appends "trap when the fuel is negative".
func (w *metering) trap(c []byte) []byte {
	c = append(c, opGlobalGet)
	c = binary.AppendUvarint(c, uint64(w.global))
	return append(c, opI64Const, 0, opI64LtS, opIf, blockEmpty, opUnreachable, opEnd)
}

// bulkShift tells whether an instruction's cost depends on the length on top of the
// stack, and how.
func bulkShift(i *instruction) (shift int, ok bool) {
	switch {
	case i.op == opMemoryGrow:
		return pagesShift, true
	case i.op != opMisc:
		return 0, false
	}
	switch i.sub {
	case miscMemoryInit, miscMemoryCopy, miscMemoryFill:
		return bytesShift, true
	case miscTableInit, miscTableCopy, miscTableGrow, miscTableFill:
		return itemsShift, true
	default:
		return 0, false
	}
}

// bulkCharge appends a charge of one tick and the length on top of the stack, an i32,
// shifted.
func (w *metering) bulkCharge(shift int) {
	w.bulk, w.pending = true, 1
	c := append(w.code, opLocalTee)
	c = binary.AppendUvarint(c, uint64(w.temporary))
	c = append(c, opGlobalGet)
	c = binary.AppendUvarint(c, uint64(w.global))
	c = append(c, opLocalGet)
	c = binary.AppendUvarint(c, uint64(w.temporary))
	c = append(c, opI64ExtendU)
	if shift >= 0 {
		c = append(appendConst64(c, int64(shift)), opI64ShrU)
	} else {
		c = append(appendConst64(c, int64(-shift)), opI64Shl)
	}
	c = append(appendConst64(c, 1), opI64Add)
	c = append(c, opI64Sub, opGlobalSet)
	c = binary.AppendUvarint(c, uint64(w.global))
	w.code = w.trap(c)
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
