package engine

import "encoding/binary"

// emitter writes a WebAssembly module in the binary format. It knows what the kernel
// needs and no more.
type emitter struct {
	types     [][]byte
	imports   [][]byte
	functions [][]byte // type index of each function
	globals   [][]byte
	exports   [][]byte
	codes     [][]byte
	imported  uint32
}

// Value types and instructions that the kernel is written with.
const (
	i32 = 0x7f
	i64 = 0x7e

	opUnreachable = 0x00
	opIf          = 0x04
	opEnd         = 0x0b
	opReturn      = 0x0f
	opCall        = 0x10
	opLocalGet    = 0x20
	opLocalSet    = 0x21
	opGlobalGet   = 0x23
	opGlobalSet   = 0x24
	opI32Load8U   = 0x2d
	opI64Load     = 0x29
	opI32Store8   = 0x3a
	opI64Store    = 0x37
	opI32Const    = 0x41
	opI64Const    = 0x42
	opI64Eqz      = 0x50
	opI64Ne       = 0x52
	opI64LtU      = 0x54
	opI64GtU      = 0x56
	opI64GeU      = 0x5a
	opI32Or       = 0x72
	opI64Add      = 0x7c
	opI64Sub      = 0x7d
	opI64And      = 0x83
	opI64Xor      = 0x85
	opI32Wrap     = 0xa7

	blockEmpty = 0x40

	exportFunction = 0
	exportMemory   = 2
	exportGlobal   = 3
)

func uleb(n uint64) []byte { return binary.AppendUvarint(nil, n) }

// sleb encodes a signed number.
func sleb(n int64) []byte {
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

func sized(b []byte) []byte { return append(uleb(uint64(len(b))), b...) }

func list(items [][]byte) []byte {
	b := uleb(uint64(len(items)))
	for _, i := range items {
		b = append(b, i...)
	}
	return b
}

func concat(parts ...[]byte) []byte {
	var b []byte
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

// code writes instructions: each part is an opcode or already encoded.
func code(parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			b = append(b, byte(p))
		case []byte:
			b = append(b, p...)
		}
	}
	return b
}

func local(n uint64) []byte     { return code(opLocalGet, uleb(n)) }
func setLocal(n uint64) []byte  { return code(opLocalSet, uleb(n)) }
func global(n uint32) []byte    { return code(opGlobalGet, uleb(uint64(n))) }
func setGlobal(n uint32) []byte { return code(opGlobalSet, uleb(uint64(n))) }
func const32(n int64) []byte    { return code(opI32Const, sleb(n)) }
func const64(n int64) []byte    { return code(opI64Const, sleb(n)) }
func call(n uint32) []byte      { return code(opCall, uleb(uint64(n))) }

// when writes "if the i32 on the stack is not zero".
func when(body ...any) []byte { return code(opIf, blockEmpty, code(body...), opEnd) }

func (e *emitter) signature(params, results []byte) []byte {
	t := concat([]byte{0x60}, sized(params), sized(results))
	for i, have := range e.types {
		if string(have) == string(t) {
			return uleb(uint64(i))
		}
	}
	e.types = append(e.types, t)
	return uleb(uint64(len(e.types) - 1))
}

// importFunction adds an import and returns its function index. Imports come first.
func (e *emitter) importFunction(module, name string, params, results []byte) uint32 {
	e.imports = append(e.imports, concat(sized([]byte(module)), sized([]byte(name)), []byte{exportFunction}, e.signature(params, results)))
	e.imported++
	return e.imported - 1
}

// function adds an exported function with i64 locals beside its parameters.
func (e *emitter) function(name string, params, results []byte, locals int, body []byte) {
	index := e.imported + uint32(len(e.functions))
	e.functions = append(e.functions, e.signature(params, results))
	declarations := []byte{0}
	if locals > 0 {
		declarations = concat([]byte{1}, uleb(uint64(locals)), []byte{i64})
	}
	e.codes = append(e.codes, sized(concat(declarations, body, []byte{opEnd})))
	e.export(name, exportFunction, index)
}

// variable adds an exported mutable i64 global.
func (e *emitter) variable(name string, initial int64) uint32 {
	index := uint32(len(e.globals))
	e.globals = append(e.globals, code(i64, 1, const64(initial), opEnd))
	e.export(name, exportGlobal, index)
	return index
}

func (e *emitter) export(name string, kind byte, index uint32) {
	e.exports = append(e.exports, concat(sized([]byte(name)), []byte{kind}, uleb(uint64(index))))
}

// module returns the module with a memory of fixed size, exported as "memory".
func (e *emitter) module(pages uint32) []byte {
	e.export("memory", exportMemory, 0)
	out := []byte("\x00asm\x01\x00\x00\x00")
	section := func(id byte, content []byte) { out = append(append(out, id), sized(content)...) }
	section(1, list(e.types))
	section(2, list(e.imports))
	section(3, list(e.functions))
	section(5, concat([]byte{1, 1}, uleb(uint64(pages)), uleb(uint64(pages))))
	section(6, list(e.globals))
	section(7, list(e.exports))
	section(10, list(e.codes))
	return out
}
