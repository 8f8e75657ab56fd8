package fuel

import "fmt"

const (
	// maxPages is the size of a 32-bit address space, in pages.
	maxPages = 1 << 16
	// maxTableItems bounds the sum of the initial sizes of all tables, and that of all element
	// segments: an engine allocates many times their size in the module.
	maxTableItems = 1 << 18
	// maxFunctions bounds the functions, and the data segments.
	maxFunctions = 100_000
	// maxItems bounds the types, imports, tables, globals, exports and element segments, each.
	maxItems = 10_000
	// maxValues bounds the parameters and the results of a function.
	maxValues = 1000
	// maxPassiveBytes bounds a data segment that code copies with one instruction.
	maxPassiveBytes = 4 << 20
)

// unsupported is an error with a WebAssembly proposal that the engine does not support, and the
// place where the module uses it.
func unsupported(proposal, what string) error {
	return fmt.Errorf("the module uses %s (%s), which Longshore does not support: build it without", proposal, what)
}

func (r *reader) valueType() ValueType {
	switch t := ValueType(r.byte()); t {
	case I32, I64, F32, F64, V128, FuncRef, ExternRef:
		return t
	case 0x63, 0x64:
		r.fail(unsupported("typed function references", "a value type"))
	case 0x69:
		r.fail(unsupported("exception handling", "type exnref"))
	default:
		if r.err == nil {
			r.fail(fmt.Errorf("value type %#x is unknown", byte(t)))
		}
	}
	return 0
}

func (r *reader) valueTypes() []ValueType {
	n := r.count(1, maxValues)
	types := make([]ValueType, 0, n)
	for range n {
		types = append(types, r.valueType())
	}
	return types
}

func (r *reader) kind() Kind {
	b := r.byte()
	if b == 4 {
		r.fail(unsupported("exception handling", "a tag"))
	} else if b > 4 {
		r.fail(fmt.Errorf("kind %#x of import or export is unknown", b))
	}
	return Kind(b & 3)
}

func (m *Module) types(r *reader) {
	for range r.count(3, maxItems) {
		switch form := r.byte(); form {
		case 0x60:
			m.signatures = append(m.signatures, Signature{Params: r.valueTypes(), Results: r.valueTypes()})
		case 0x4e, 0x4f, 0x50, 0x5e, 0x5f:
			r.fail(unsupported("garbage collection", "a type"))
		default:
			r.fail(fmt.Errorf("type form %#x is unknown", form))
		}
		if r.err != nil {
			return
		}
	}
}

func (m *Module) imports(r *reader) {
	for range r.count(4, maxItems) {
		i := Import{Module: r.name(), Name: r.name(), Kind: r.kind()}
		switch i.Kind {
		case KindFunction:
			m.functions = append(m.functions, r.u32())
			m.importedFunctions++
		case KindTable:
			r.table()
			m.importedTables++
		case KindMemory:
			r.limits(maxPages)
			m.importedMemories++
		case KindGlobal:
			r.valueType()
			r.byte()
			m.importedGlobals++
		}
		if r.err != nil {
			return
		}
		m.Imports = append(m.Imports, i)
	}
}

func (r *reader) limits(most uint32) Limits {
	flags := r.byte()
	switch {
	case flags&^3 != 0:
		r.fail(unsupported("memory64", "64-bit limits"))
	case flags&2 != 0:
		r.fail(unsupported("threads", "shared memory"))
	}
	l := Limits{Min: r.u32()}
	if flags&1 != 0 {
		l.Max, l.HasMax = r.u32(), true
	}
	if l.Min > most {
		r.fail(fmt.Errorf("an initial size of %d is more than %d", l.Min, most))
	}
	return l
}

func (r *reader) table() Limits {
	switch t := ValueType(r.byte()); t {
	case FuncRef, ExternRef:
	case 0x40, 0x63, 0x64:
		r.fail(unsupported("typed function references", "a table"))
	default:
		if r.err == nil {
			r.fail(fmt.Errorf("a table cannot hold type %#x", byte(t)))
		}
	}
	return r.limits(maxTableItems)
}

func (m *Module) globals(r *reader) {
	n := r.count(4, maxItems)
	for i := range n {
		g := Global{Index: uint32(m.importedGlobals + i), Type: r.valueType()}
		mutable := r.byte()
		if mutable > 1 {
			r.fail(fmt.Errorf("mutability %#x of a global is unknown", mutable))
		}
		g.Mutable = mutable == 1
		r.constant()
		if r.err != nil {
			return
		}
		m.Globals = append(m.Globals, g)
	}
}

// constant skips a constant expression.
func (r *reader) constant() {
	for r.err == nil {
		switch op := r.byte(); op {
		case opEnd:
			return
		case opI32Const:
			r.s64(5)
		case opI64Const:
			r.s64(10)
		case opF32Const:
			r.take(4)
		case opF64Const:
			r.take(8)
		case opGlobalGet:
			r.globalIndex()
		case opRefFunc:
			r.space.declare(r.noteFunction())
		case opRefNull:
			r.nullType()
		case opVector:
			if sub := r.byte(); sub != vectorConst {
				r.fail(fmt.Errorf("vector instruction %#x is not allowed in a constant expression", sub))
			}
			r.take(16)
		case 0x6a, 0x6b, 0x6c, 0x7c, 0x7d, 0x7e:
			r.fail(unsupported("extended constant expressions", "arithmetic in an initializer"))
		default:
			r.fail(fmt.Errorf("instruction %#x is not allowed in a constant expression", op))
		}
	}
}

// elements skips the element section.
func elements(r *reader) {
	left := maxTableItems
	n := r.count(2, maxItems)
	r.space.elements = uint32(n)
	for range n {
		flags := r.u32()
		if flags > 7 {
			r.fail(fmt.Errorf("element segment has the unknown flags %#x", flags))
			return
		}
		passive, explicit, expressions := flags&1 != 0, flags&2 != 0, flags&4 != 0
		if !passive && explicit {
			r.tableIndex()
		}
		if !passive {
			r.constant()
		}
		if passive || explicit {
			if kind := r.byte(); expressions && (kind == 0x63 || kind == 0x64) {
				r.fail(unsupported("typed function references", "an element segment"))
			}
		}
		items := r.count(1, left)
		left -= items
		for range items {
			if expressions {
				r.constant()
			} else {
				r.space.declare(r.noteFunction())
			}
			if r.err != nil {
				return
			}
		}
	}
}

// data skips the data section.
func data(r *reader) {
	for range r.count(2, maxFunctions) {
		flags := r.u32()
		switch flags {
		case 0:
			r.constant()
		case 1:
		case 2:
			r.memoryIndex()
			r.constant()
		default:
			r.fail(fmt.Errorf("data segment has the unknown flags %#x", flags))
		}
		if content := r.take(r.u32()); flags == 1 && len(content) > maxPassiveBytes {
			r.fail(fmt.Errorf("a passive data segment has %d bytes, more than %d: split it up", len(content), maxPassiveBytes))
		}
		if r.err != nil {
			return
		}
	}
}
