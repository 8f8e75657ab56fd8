// Package encode encodes WebAssembly modules in the binary format: the kernel of the engine, and
// the modules that tests make of instructions. It does not check that they are valid. Package
// fuel decodes modules.
package encode

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

// sections are the items of a module's sections, each encoded.
type sections struct {
	Types, Imports, Functions, Tables, Memories, Globals, Exports, Elements, Codes, Data [][]byte
	// Start is the encoded index of the start function, or nil.
	Start []byte
	// HasDataCount adds the section with the number of data segments.
	HasDataCount bool
}

// signature returns the index of a function type, which it adds when it is new.
func (s *sections) signature(params, results []byte) uint32 {
	t := Code(0x60, Sized(params), Sized(results))
	for i, have := range s.Types {
		if string(have) == string(t) {
			return uint32(i)
		}
	}
	s.Types = append(s.Types, t)
	return uint32(len(s.Types) - 1)
}

// bytes returns the module.
func (s *sections) bytes() []byte {
	out := []byte("\x00asm\x01\x00\x00\x00")
	section := func(id byte, items [][]byte) {
		if len(items) > 0 {
			out = append(out, Section(id, List(items))...)
		}
	}
	section(1, s.Types)
	section(2, s.Imports)
	section(3, s.Functions)
	section(4, s.Tables)
	section(5, s.Memories)
	section(6, s.Globals)
	section(7, s.Exports)
	if s.Start != nil {
		out = append(out, Section(8, s.Start)...)
	}
	section(9, s.Elements)
	if s.HasDataCount {
		out = append(out, Section(12, Uleb(uint64(len(s.Data))))...)
	}
	section(10, s.Codes)
	section(11, s.Data)
	return out
}

// Section encodes a section.
func Section(id byte, content []byte) []byte { return Code(id, Sized(content)) }
