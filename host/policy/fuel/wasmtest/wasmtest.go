// Package wasmtest makes WebAssembly modules for tests: by hand, instruction by
// instruction, and from Go source. It is imported from tests only. The modules need
// not be valid: tests of what is refused need those too.
package wasmtest

import "encoding/binary"

// Value types.
const (
	I32       byte = 0x7f
	I64       byte = 0x7e
	F64       byte = 0x7c
	V128      byte = 0x7b
	FuncRef   byte = 0x70
	ExternRef byte = 0x6f
)

// Kinds of imports and exports.
const (
	Function byte = iota
	Table
	Memory
	Global
)

// Module is a module being written. Functions, globals and the like are numbered in
// the order of the calls that add them, imports first.
type Module struct {
	types, imports, functions, tables, memories, globals, exports, elements, codes, data [][]byte
	start                                                                                []byte
	dataCount                                                                            bool
	importedFunctions                                                                    uint32
}

// Uleb encodes an unsigned number.
func Uleb(n uint64) []byte { return binary.AppendUvarint(nil, n) }

// Sleb encodes a signed number.
func Sleb(n int64) []byte {
	var b []byte
	for {
		c := byte(n & 0x7f)
		n >>= 7
		if n == 0 && c&0x40 == 0 || n == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

// Sized puts the length in front.
func Sized(b []byte) []byte { return append(Uleb(uint64(len(b))), b...) }

// List encodes a vector.
func List(items [][]byte) []byte {
	b := Uleb(uint64(len(items)))
	for _, i := range items {
		b = append(b, i...)
	}
	return b
}

// Code joins instructions: bytes, byte slices, and untyped numbers below 256.
func Code(parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			b = append(b, byte(p))
		case byte:
			b = append(b, p)
		case []byte:
			b = append(b, p...)
		case string:
			b = append(b, p...)
		}
	}
	return b
}

// Instructions with an immediate.

// Const32 is i32.const.
func Const32(n int64) []byte { return Code(0x41, Sleb(n)) }

// Const64 is i64.const.
func Const64(n int64) []byte { return Code(0x42, Sleb(n)) }

// Get is local.get.
func Get(local uint64) []byte { return Code(0x20, Uleb(local)) }

// Set is local.set.
func Set(local uint64) []byte { return Code(0x21, Uleb(local)) }

// GlobalGet is global.get.
func GlobalGet(global uint64) []byte { return Code(0x23, Uleb(global)) }

// GlobalSet is global.set.
func GlobalSet(global uint64) []byte { return Code(0x24, Uleb(global)) }

// Call is call.
func Call(function uint32) []byte { return Code(0x10, Uleb(uint64(function))) }

func (m *Module) signature(params, results []byte) []byte {
	t := Code(0x60, Sized(params), Sized(results))
	for i, have := range m.types {
		if string(have) == string(t) {
			return Uleb(uint64(i))
		}
	}
	m.types = append(m.types, t)
	return Uleb(uint64(len(m.types) - 1))
}

// Import adds an imported function and returns its index.
func (m *Module) Import(module, name string, params, results []byte) uint32 {
	m.ImportRaw(module, name, Function, m.signature(params, results))
	m.importedFunctions++
	return m.importedFunctions - 1
}

// ImportRaw adds an import of any kind with its encoded type.
func (m *Module) ImportRaw(module, name string, kind byte, what []byte) {
	m.imports = append(m.imports, Code(Sized([]byte(module)), Sized([]byte(name)), kind, what))
}

// Func adds a function and returns its index. locals are the types of its variables
// beside the parameters. The final end is added.
func (m *Module) Func(params, results, locals []byte, body ...any) uint32 {
	m.functions = append(m.functions, m.signature(params, results))
	var groups [][]byte
	for _, t := range locals {
		groups = append(groups, []byte{1, t})
	}
	m.codes = append(m.codes, Sized(Code(List(groups), Code(body...), 0x0b)))
	return m.importedFunctions + uint32(len(m.functions)) - 1
}

// RawFunc adds a function whose body, local declarations included, is given as it is.
func (m *Module) RawFunc(params, results, body []byte) uint32 {
	m.functions = append(m.functions, m.signature(params, results))
	m.codes = append(m.codes, Sized(body))
	return m.importedFunctions + uint32(len(m.functions)) - 1
}

// Export exports something under a name.
func (m *Module) Export(name string, kind byte, index uint32) {
	m.exports = append(m.exports, Code(Sized([]byte(name)), kind, Uleb(uint64(index))))
}

// Memory adds a memory; no maximum when it is negative. It is exported as "memory".
func (m *Module) Memory(minimum, maximum int64) {
	m.memories = append(m.memories, limits(minimum, maximum))
	m.Export("memory", Memory, 0)
}

// HiddenMemory adds a memory that is not exported.
func (m *Module) HiddenMemory(minimum, maximum int64) {
	m.memories = append(m.memories, limits(minimum, maximum))
}

func limits(minimum, maximum int64) []byte {
	if maximum < 0 {
		return Code(0, Uleb(uint64(minimum)))
	}
	return Code(1, Uleb(uint64(minimum)), Uleb(uint64(maximum)))
}

// Table adds a table of functions.
func (m *Module) Table(minimum, maximum int64) {
	m.tables = append(m.tables, Code(FuncRef, limits(minimum, maximum)))
}

// Global adds a global with its initializer, without the final end, and returns its
// index among the module's own.
func (m *Module) Global(t byte, mutable bool, initial ...any) uint32 {
	flag := 0
	if mutable {
		flag = 1
	}
	m.globals = append(m.globals, Code(t, flag, Code(initial...), 0x0b))
	return uint32(len(m.globals) - 1)
}

// Start sets the start function.
func (m *Module) Start(function uint32) { m.start = Uleb(uint64(function)) }

// Element adds an element segment as it is encoded.
func (m *Module) Element(segment ...any) { m.elements = append(m.elements, Code(segment...)) }

// Data adds an active data segment.
func (m *Module) Data(offset int64, data string) {
	m.data = append(m.data, Code(0, Const32(offset), 0x0b, Sized([]byte(data))))
}

// PassiveData adds a passive data segment.
func (m *Module) PassiveData(data string) {
	m.data = append(m.data, Code(1, Sized([]byte(data))))
	m.dataCount = true
}

// Bytes returns the module.
func (m *Module) Bytes() []byte {
	out := []byte("\x00asm\x01\x00\x00\x00")
	section := func(id byte, items [][]byte) {
		if len(items) > 0 {
			out = append(out, Section(id, List(items))...)
		}
	}
	section(1, m.types)
	section(2, m.imports)
	section(3, m.functions)
	section(4, m.tables)
	section(5, m.memories)
	section(6, m.globals)
	section(7, m.exports)
	if m.start != nil {
		out = append(out, Section(8, m.start)...)
	}
	section(9, m.elements)
	if m.dataCount {
		out = append(out, Section(12, Uleb(uint64(len(m.data))))...)
	}
	section(10, m.codes)
	section(11, m.data)
	return out
}

// Section encodes a section.
func Section(id byte, content []byte) []byte { return Code(id, Sized(content)) }
