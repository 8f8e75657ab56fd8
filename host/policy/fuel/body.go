package fuel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

const (
	// localsPerPart is how many local variables are cleared for a part of a tick.
	localsPerPart = 256
	// maxLocals limits the local variables of a function, as JavaScript engines do: a module
	// declares any number of them in a few bytes.
	maxLocals = 50_000
	// maxLocalsInAll bounds the parameters and local variables of all functions. A module declares
	// any number of them in a few bytes, and an engine keeps eight bytes for each. The Go compiler,
	// a module of 47 MiB, has 110,000.
	maxLocalsInAll = 2_000_000
	// maxMoves bounds the values that the blocks and calls of a function pass: an engine that
	// validates the module keeps each of them.
	maxMoves = 50_000
	// maxNesting bounds the nesting of blocks.
	maxNesting = 4_096
	// maxLoopNesting bounds the nesting of loops.
	maxLoopNesting = 256
	// maxBodyBytes bounds the code of a function.
	maxBodyBytes = 256 << 10
	// maxBranches bounds the blocks and branch targets of a function.
	maxBranches = 10_000
	// maxComplexity bounds the sum, over all functions, of the squares of their branches and of
	// their bytes divided by 16. A large standard Go guest has some fifty million.
	maxComplexity = 1_000_000_000
)

// complexity estimates the time to compile a function, which grows in wazero with the square
// of both counts: a function at both limits takes seconds, and a function of one megabyte
// would take minutes.
func complexity(branches, bytes int) int { return branches*branches + bytes/16*(bytes/16) }

// control is an open block while a function is rewritten.
type control struct {
	op byte
	// before is the pending weight before an if, with which its else begins.
	before int
	// exit is the largest pending weight of the branches to the end of the block.
	exit int
}

// metering rewrites the functions of one module.
type metering struct {
	// charge is false for a module that is only prepared for snapshots.
	charge bool
	// fuel and stack are the indices of the globals of these names.
	fuel, stack uint32
	// look is the index of the imported function that is called when the fuel is negative.
	// fill and copy are those of the functions that fill and copy memory in parts, which exist
	// if parts is set.
	look, fill, copy uint32
	parts            bool
	module           *Module

	code     []byte
	controls []control
	labels   []uint32
	// pending is an upper bound of the weight of all paths from the last charge to this point.
	pending int
	// after is the index of an additional local of type i64 for the remaining fuel. temporary
	// is that of one of type i32, used only when bulk is set.
	after, temporary uint32
	bulk             bool
	// calls is set when the function calls functions of the module.
	calls bool
	head  []byte
	// signatures are those of the module and of added blocks.
	signatures []Signature

	// loops counts the open loops of the current function, branches its blocks and branch
	// targets. complexity is the sum over all functions, as locals is of their local variables.
	// moves counts the values that the blocks and calls of the current function pass.
	loops, branches, complexity, moves int
	locals                             uint64

	// unrestorable is for Rewritten; noted are the instructions in it.
	unrestorable []string
	noted        map[string]bool
}

// note records an instruction that changes state outside the snapshot.
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

// unrestorable are the instructions with the prefix opMisc that change tables or
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
	if w.locals += locals; w.locals > maxLocalsInAll {
		r.fail(fmt.Errorf("the functions have more than %d local variables", maxLocalsInAll))
	}
	if r.err != nil {
		return nil, r.err
	}
	s.locals = uint32(locals)
	declarations := b.data[first:r.pos]
	w.code, w.controls = w.code[:0], w.controls[:0]
	w.after, w.temporary, w.bulk, w.calls, w.pending = uint32(locals), uint32(locals)+1, false, false, 0
	w.loops, w.branches, w.moves = 0, 0, 0
	if err := w.instructions(r, index); err != nil {
		return nil, err
	}
	w.complexity += complexity(w.branches, len(b.data))
	if len(b.data) > maxBodyBytes || w.branches > maxBranches || w.complexity > maxComplexity {
		return nil, fmt.Errorf("%d bytes and %d branches would take too long to compile: split it up", len(b.data), w.branches)
	}
	head := binary.AppendUvarint(w.head[:0], uint64(groups)+one(w.charge)+one(w.bulk))
	head = append(head, declarations...)
	if w.charge {
		head = append(head, 1, byte(I64))
	}
	if w.bulk {
		head = append(head, 1, byte(I32))
	}
	var tail []byte
	if w.charge {
		head, tail = w.frame(head, signature.Results, locals, len(b.data))
	}
	w.head = head
	out = binary.AppendUvarint(out, uint64(len(head)+len(w.code)+len(tail)))
	out = append(out, head...)
	out = append(out, w.code...)
	return append(out, tail...), nil
}

// frame appends the first instructions of a function to its head, and returns its last
// instructions. A function pays a tick at its entry, which covers cheap instructions and the
// last ones of its caller, and more if it has many local variables, which the engine clears.
// The remaining weight is paid at the end, which all paths reach.
func (w *metering) frame(head []byte, results []ValueType, locals uint64, bytes int) (withEntry, tail []byte) {
	head = w.take(head, Parts+int64(locals/localsPerPart))
	due := int64(0)
	if w.pending >= tickWeight {
		due = int64(w.pending / partWeight)
	}
	if !w.calls && due == 0 {
		return head, nil
	}
	held := heldStack(locals, bytes)
	if w.calls {
		head = w.hold(head, held)
	}
	head = append(append(head, opBlock), w.blockType(results)...)
	if w.calls {
		tail = w.release(tail, held)
	}
	if due > 0 {
		tail = w.take(tail, due)
	}
	return head, append(tail, opEnd)
}

// blockType encodes the type of a block without parameters.
func (w *metering) blockType(results []ValueType) []byte {
	switch len(results) {
	case 0:
		return []byte{blockEmpty}
	case 1:
		return []byte{byte(results[0])}
	}
	return appendSigned(nil, int64(w.typeIndex(Signature{Results: results})))
}

// typeIndex returns the index of a type, which it adds if the module has no equal one.
func (w *metering) typeIndex(want Signature) uint32 {
	for i, s := range w.signatures {
		if slices.Equal(s.Params, want.Params) && slices.Equal(s.Results, want.Results) {
			return uint32(i)
		}
	}
	w.signatures = append(w.signatures, want)
	return uint32(len(w.signatures) - 1)
}

func one(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// instructions copies the instructions of a function and inserts the charges.
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
		if err := w.pass(&i); err != nil {
			return err
		}
		if !w.charge {
			if err := w.nest(&i); err != nil {
				return err
			}
			continue
		}
		copied = w.edit(r, &i, start, copied)
		if err := w.nest(&i); err != nil {
			return err
		}
		if i.op == opLoop {
			w.code = append(w.code, r.data[copied:r.pos]...)
			copied = r.pos
			w.code = w.take(w.code, Parts)
		}
	}
	if r.rest() > 0 {
		r.fail(errors.New("there are bytes after the end of a function"))
	}
	w.code = append(w.code, r.data[copied:]...)
	return r.err
}

// nest follows the control flow: it tracks the open blocks, and the pending weight where paths
// split and join.
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
			return errors.New("an else has no if")
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
			// The head of a loop pays for a branch to it.
			target := &w.controls[len(w.controls)-1-int(label)]
			if target.op != opLoop {
				target.exit = max(target.exit, w.pending)
			}
		}
		if i.op != opBrIf {
			w.pending = 0 // the next instruction is reached from elsewhere in the function, or is dead code
		}
	case opReturn:
		w.controls[0].exit = max(w.controls[0].exit, w.pending)
		w.pending = 0
	case opUnreachable:
		w.pending = 0
	case opCall:
		// The entry of a function of the module pays for less than a tick before the call.
		if w.own(i.index) {
			w.pending = 0
		}
	}
	return nil
}

// pass counts the values that a block or a call passes.
func (w *metering) pass(i *instruction) error {
	signature := i.signature
	switch i.op {
	case opBlock, opLoop, opIf, opCallIndirect:
	case opCall:
		signature = int64(w.module.functions[i.index])
	default:
		return nil
	}
	if signature < 0 {
		return nil
	}
	s := &w.module.signatures[signature]
	if w.moves += len(s.Params) + len(s.Results); w.moves > maxMoves {
		return fmt.Errorf("the blocks and calls of a function pass more than %d values: split it up", maxMoves)
	}
	return nil
}

// own reports whether a function is defined in the module, not imported.
func (w *metering) own(function uint32) bool {
	return int64(function) >= int64(w.module.importedFunctions)
}
