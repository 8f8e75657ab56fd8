package fuel

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ValueType is the binary encoding of the type of a value.
type ValueType byte

// The value types.
const (
	I32       ValueType = 0x7f
	I64       ValueType = 0x7e
	F32       ValueType = 0x7d
	F64       ValueType = 0x7c
	V128      ValueType = 0x7b
	FuncRef   ValueType = 0x70
	ExternRef ValueType = 0x6f
)

// String returns the word of the text format.
func (t ValueType) String() string {
	switch t {
	case I32:
		return "i32"
	case I64:
		return "i64"
	case F32:
		return "f32"
	case F64:
		return "f64"
	case V128:
		return "v128"
	case FuncRef:
		return "funcref"
	case ExternRef:
		return "externref"
	default:
		return fmt.Sprintf("type %#x", byte(t))
	}
}

// number reports whether a value is a number of at most 64 bits.
func (t ValueType) number() bool { return t >= F64 && t <= I32 }

// Kind is the binary encoding of the kind of an import or export.
type Kind byte

// The kinds.
const (
	KindFunction Kind = iota
	KindTable
	KindMemory
	KindGlobal
)

// String returns the word of the text format.
func (k Kind) String() string {
	return [...]string{"func", "table", "memory", "global"}[k&3]
}

// Signature is the type of a function.
type Signature struct {
	Params, Results []ValueType
}

// Import is an item that the host provides to a module.
type Import struct {
	Module, Name string
	Kind         Kind
	// Signature is set for functions.
	Signature Signature
}

// Export is an item that a module provides to the host.
type Export struct {
	Name string
	Kind Kind
	// Signature is set for functions.
	Signature Signature
	index     uint32
}

// Limits are the sizes of a memory, in pages of 64 KiB, or of a table, in items.
type Limits struct {
	Min uint32
	// Max is meaningful only with HasMax.
	Max    uint32
	HasMax bool
}

// Global is a global variable of the module itself.
type Global struct {
	// Index among all globals, imported ones first.
	Index   uint32
	Type    ValueType
	Mutable bool
}

// Module is a parsed module. It is not changed by its methods and shares memory with
// the bytes that it was parsed from.
type Module struct {
	// Imports, in order.
	Imports []Import
	// Exports, in order.
	Exports []Export
	// Memory is the module's own memory, nil when it has none.
	Memory *Limits
	// Tables are the module's own tables.
	Tables []Limits
	// Globals are the module's own globals.
	Globals []Global
	// HasStart is set when the module has a start function.
	HasStart bool

	signatures []Signature
	// functions are the type indices of all functions, imported ones first.
	functions         []uint32
	importedFunctions int
	importedGlobals   int
	importedTables    int
	importedMemories  int
	start             uint32
	space             space
	bodies            []body
	sections          []section
}

// section is a section of the module. Custom sections are dropped.
type section struct {
	id   byte
	data []byte
	base int
	// functions are the indices of functions in it.
	functions []functionRef
}

// body is the code of a function: its local declarations and its instructions.
type body struct {
	data []byte
	base int
}

// Section identifiers.
const (
	sectionCustom = iota
	sectionType
	sectionImport
	sectionFunction
	sectionTable
	sectionMemory
	sectionGlobal
	sectionExport
	sectionStart
	sectionElement
	sectionCode
	sectionData
	sectionDataCount
	sectionTag
)

// rank is the order of the sections.
var rank = [...]int{
	sectionType: 1, sectionImport: 2, sectionFunction: 3, sectionTable: 4, sectionMemory: 5,
	sectionGlobal: 6, sectionExport: 7, sectionStart: 8, sectionElement: 9, sectionDataCount: 10,
	sectionCode: 11, sectionData: 12,
}

const header = "\x00asm\x01\x00\x00\x00"

// ErrNotWasm is returned for bytes that are not a core WebAssembly module.
var ErrNotWasm = errors.New("this is not a WebAssembly module")

// Parse reads the sections of a module. It checks what rewriting relies on, and what could
// make an engine allocate much more than the size of the module. The engine checks the types
// of instructions.
func Parse(wasm []byte) (*Module, error) {
	switch {
	case len(wasm) < len(header) || string(wasm[:4]) != header[:4]:
		return nil, fmt.Errorf("%w: it does not begin with \\0asm", ErrNotWasm)
	case string(wasm[4:8]) == "\x0d\x00\x01\x00":
		return nil, fmt.Errorf("%w but a component: build a core module (wasip1, not wasip2)", ErrNotWasm)
	case string(wasm[4:8]) != header[4:]:
		return nil, fmt.Errorf("%w of version 1", ErrNotWasm)
	}
	m := &Module{}
	r := &reader{data: wasm, pos: len(header), space: &m.space}
	last := 0
	for !r.done() {
		id := r.byte()
		size := r.u32()
		content := r.sub(size)
		if r.err != nil {
			return nil, fmt.Errorf("reading section %d: %w", id, r.err)
		}
		if id == sectionCustom {
			if content.name(); content.err != nil {
				return nil, fmt.Errorf("reading a custom section: %w", content.err)
			}
			continue
		}
		if id == sectionTag {
			return nil, unsupported("exception handling", "section tag")
		}
		if int(id) >= len(rank) {
			return nil, fmt.Errorf("section %d is unknown", id)
		}
		if rank[id] <= last {
			return nil, fmt.Errorf("section %s is out of order or repeated", sectionName(id))
		}
		last = rank[id]
		m.sections = append(m.sections, section{id: id, data: content.data, base: content.base})
		m.section(id, content)
		m.count()
		m.sections[len(m.sections)-1].functions = content.functions
		if content.err == nil && content.rest() > 0 {
			content.fail(errors.New("there are bytes after its content"))
		}
		if content.err != nil {
			return nil, fmt.Errorf("reading section %s: %w", sectionName(id), content.err)
		}
	}
	if defined := len(m.functions) - m.importedFunctions; defined != len(m.bodies) {
		return nil, fmt.Errorf("the module declares %d functions and has the code of %d", defined, len(m.bodies))
	}
	if err := m.resolve(); err != nil {
		return nil, err
	}
	return m, nil
}

func sectionName(id byte) string {
	names := [...]string{"custom", "type", "import", "function", "table", "memory", "global", "export", "start", "element", "code", "data", "datacount"}
	if int(id) < len(names) {
		return names[id]
	}
	return fmt.Sprint(id)
}

func (m *Module) section(id byte, r *reader) {
	switch id {
	case sectionType:
		m.types(r)
	case sectionImport:
		m.imports(r)
	case sectionFunction:
		for range r.count(1, maxFunctions) {
			m.functions = append(m.functions, r.u32())
		}
	case sectionTable:
		var items uint64
		for range r.count(3, maxItems) {
			m.Tables = append(m.Tables, r.table())
			if items += uint64(m.Tables[len(m.Tables)-1].Min); items > maxTableItems {
				r.fail(fmt.Errorf("the tables begin with more than %d items", maxTableItems))
				return
			}
		}
	case sectionMemory:
		for range r.count(2, maxItems) {
			if m.Memory != nil {
				r.fail(unsupported("multi-memory", "a second memory"))
			}
			limits := r.limits(maxPages)
			m.Memory = &limits
		}
	case sectionGlobal:
		m.globals(r)
	case sectionExport:
		for range r.count(3, maxItems) {
			m.Exports = append(m.Exports, Export{Name: r.name(), Kind: r.kind(), index: r.u32()})
		}
	case sectionStart:
		m.HasStart, m.start = true, r.u32()
	case sectionElement:
		elements(r)
	case sectionCode:
		for range r.count(2, maxFunctions) {
			content := r.sub(r.u32())
			m.bodies = append(m.bodies, body{data: content.data, base: content.base})
		}
	case sectionData:
		data(r)
	case sectionDataCount:
		m.space.data = r.u32()
	}
}

// Plain returns the module without its custom sections. Parse has read all the rest, so a count in
// it cannot exceed the bytes that follow. Custom sections have no effect on what a module does, and
// an engine must not be given them: it allocates what their counts ask for.
func (m *Module) Plain() []byte {
	out := []byte(header)
	for i := range m.sections {
		out = appendSection(out, m.sections[i].id, m.sections[i].data)
	}
	return out
}

func appendSection(out []byte, id byte, content []byte) []byte {
	return append(binary.AppendUvarint(append(out, id), uint64(len(content))), content...)
}

// count updates the numbers of items.
func (m *Module) count() {
	s := &m.space
	s.types, s.functions = uint32(len(m.signatures)), uint32(len(m.functions))
	s.tables, s.globals = uint32(m.importedTables+len(m.Tables)), uint32(m.importedGlobals+len(m.Globals))
	s.memories = uint32(m.importedMemories)
	if m.Memory != nil {
		s.memories++
	}
}

// resolve checks the indices that the rewriting relies on, and fills in signatures.
func (m *Module) resolve() error {
	for i, t := range m.functions {
		if int64(t) >= int64(len(m.signatures)) {
			return fmt.Errorf("function %d has the unknown type %d", i, t)
		}
	}
	function := 0
	for i := range m.Imports {
		if m.Imports[i].Kind == KindFunction {
			m.Imports[i].Signature = m.signatures[m.functions[function]]
			function++
		}
	}
	for i := range m.Exports {
		e := &m.Exports[i]
		if err := m.space.exported(e); err != nil {
			return err
		}
		if e.Kind == KindFunction {
			e.Signature = m.signatures[m.functions[e.index]]
		}
	}
	if m.HasStart {
		if int64(m.start) >= int64(len(m.functions)) {
			return fmt.Errorf("the start function %d is unknown", m.start)
		}
		if s := m.signatures[m.functions[m.start]]; len(s.Params)+len(s.Results) != 0 {
			return fmt.Errorf("the start function %d has parameters or results", m.start)
		}
	}
	return nil
}
