package fuel

import (
	"errors"
	"fmt"
)

// space has the number of items of each kind in the original module. Rewriting adds globals,
// types, exports, blocks and local variables after those of the module. An index out of range
// could refer to one of these, so it is an error here: the engine runs the rewritten module.
type space struct {
	types, functions, tables, memories, globals, elements, data uint32
	// locals are those of the current function.
	locals uint32
	// declared are the functions that ref.func may refer to: those in element segments,
	// exports and initial values.
	declared map[uint32]bool
}

// index decodes an index, which must be less than n.
func (r *reader) index(what string, n uint32) uint32 {
	i := r.u32()
	if r.err == nil && i >= n {
		r.fail(fmt.Errorf("%s %d does not exist", what, i))
	}
	return i
}

func (r *reader) typeIndex() uint32    { return r.index("type", r.space.types) }
func (r *reader) tableIndex() uint32   { return r.index("table", r.space.tables) }
func (r *reader) globalIndex() uint32  { return r.index("global", r.space.globals) }
func (r *reader) localIndex() uint32   { return r.index("local variable", r.space.locals) }
func (r *reader) elementIndex() uint32 { return r.index("element segment", r.space.elements) }
func (r *reader) dataIndex() uint32    { return r.index("data segment", r.space.data) }

// memoryIndex decodes the index of a memory, for which engines read a single byte.
func (r *reader) memoryIndex() {
	b := r.byte()
	if r.err == nil && uint32(b) >= r.space.memories {
		r.fail(fmt.Errorf("memory %d does not exist", b))
	}
}

// address decodes the alignment and the offset of a load or store.
func (r *reader) address() {
	r.u32()
	r.u32()
	if r.err == nil && r.space.memories == 0 {
		r.fail(errors.New("memory 0 does not exist"))
	}
}

// declare records that ref.func may refer to a function.
func (s *space) declare(function uint32) {
	if s.declared == nil {
		s.declared = map[uint32]bool{}
	}
	s.declared[function] = true
}

// reference decodes the function of a ref.func in code.
func (r *reader) reference() uint32 {
	f := r.functionIndex()
	if r.err == nil && !r.space.declared[f] {
		r.fail(fmt.Errorf("function %d is not declared for references", f))
	}
	return f
}

// functionRef is an index of a function, and its offset.
type functionRef struct {
	from, to int
	index    uint32
}

func (r *reader) functionIndex() uint32 { return r.index("function", r.space.functions) }

// noteFunction decodes the index of a function and records its offset.
func (r *reader) noteFunction() uint32 {
	from := r.pos
	f := r.functionIndex()
	r.functions = append(r.functions, functionRef{from, r.pos, f})
	return f
}

// nullType decodes the type of a ref.null. Engines read other types as an index.
func (r *reader) nullType() {
	switch t := ValueType(r.byte()); t {
	case FuncRef, ExternRef:
	default:
		if r.err == nil {
			r.fail(fmt.Errorf("ref.null of type %#x is unknown", byte(t)))
		}
	}
}

// exported checks the item of an export.
func (s *space) exported(e *Export) error {
	n := [...]uint32{KindFunction: s.functions, KindTable: s.tables, KindMemory: s.memories, KindGlobal: s.globals}[e.Kind]
	if e.index >= n {
		return fmt.Errorf("export %q is the unknown %s %d", e.Name, kindWord(e.Kind), e.index)
	}
	if e.Kind == KindFunction {
		s.declare(e.index)
	}
	return nil
}

func kindWord(k Kind) string {
	if k == KindFunction {
		return "function"
	}
	return k.String()
}
