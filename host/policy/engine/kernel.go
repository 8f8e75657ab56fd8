package engine

import (
	"slices"

	"github.com/longshore-dev/longshore/host/policy/encode"
)

// The kernel is the module that implements Extism's memory. Each instance of a guest
// has its own, so calls from the guest to it stay in compiled code, and the host reads
// and writes its memory directly.
//
// Its memory has a fixed size: a reserved part, the input, then blocks one after the
// other, each behind a header of two words: a mark and the block's length. Blocks are
// not freed before the end of the call, when everything beyond the reserved part is
// cleared. Every access must lie below the end of the last block, so a guest cannot read
// data of an earlier call.

const (
	// extismModule is the name under which guests import the kernel.
	extismModule = "extism:host/env"
	// kernelHostModule is what the kernel itself imports.
	kernelHostModule = "longshore:kernel"

	// inputOffset is where the input begins. Address 0 means "none" to guests.
	inputOffset = 64
	// blockHeader is the size of a block's header.
	blockHeader = 16
	// blockMark, combined with a block's address, marks a block.
	blockMark = 0x4c4f4e4753484f52
	// kernelLogLevel is the level that guests see: debug and above.
	kernelLogLevel = 1
)

// Values of the kernel's global "fault", set before it traps.
const (
	faultNone = iota
	// faultMemory: alloc found no room.
	faultMemory
	// faultRange: a load or store outside the blocks.
	faultRange
	// faultDenied: a function that policies may not call.
	faultDenied
)

// kernelGlobals are the indices of the kernel's globals.
type kernelGlobals struct{ inputLength, top, outputOffset, outputLength, failure, fault uint64 }

// blockEnd rounds the end of a block up, so that headers are aligned and eight bytes
// can be loaded from the last byte of a block.
func blockEnd(end uint64) uint64 { return (end + 15) &^ 7 }

// kernel encodes the kernel with a memory of the given number of pages.
func kernel(pages uint32) []byte {
	e := &kernelEncoder{}
	one, two, none := []byte{i64}, []byte{i64, i64}, []byte(nil)
	log := e.Import(kernelHostModule, "log", []byte{i32, i64}, none)
	varGet := e.Import(kernelHostModule, "var_get", one, one)
	varSet := e.Import(kernelHostModule, "var_set", two, none)
	denied := e.Import(kernelHostModule, "denied", one, none)
	g := kernelGlobals{
		inputLength:  e.variable("global.input_length", 0),
		top:          e.variable("global.top", inputOffset),
		outputOffset: e.variable("global.output_offset", 0),
		outputLength: e.variable("global.output_length", 0),
		failure:      e.variable("global.failure", 0),
		fault:        e.variable("global.fault", faultNone),
	}
	e.Memory(int64(pages), int64(pages))
	e.blocks(g, int64(pages)*pageBytes)
	e.input(g)
	e.output(g)
	for i, name := range []string{"log_trace", "log_debug", "log_info", "log_warn", "log_error"} {
		e.function(name, one, none, 0, encode.Code(encode.Const32(int64(i)), encode.Get(0), encode.Call(log)))
	}
	e.function("get_log_level", none, []byte{i32}, 0, encode.Const32(kernelLogLevel))
	// Settings travel in the request.
	e.function("config_get", one, one, 0, encode.Const64(0))
	e.function("var_get", one, one, 0, encode.Code(encode.Get(0), encode.Call(varGet)))
	e.function("var_set", two, none, 0, encode.Code(encode.Get(0), encode.Get(1), encode.Call(varSet)))
	e.function("http_request", two, one, 0, encode.Code(encode.Get(0), encode.Call(denied), fault(g, faultDenied)))
	e.function("http_status_code", none, []byte{i32}, 0, encode.Const32(0))
	e.function("http_headers", none, one, 0, encode.Const64(0))
	return e.Bytes()
}

// fault encodes: set the global "fault" and trap.
func fault(g kernelGlobals, f int64) []byte {
	return encode.Code(encode.Const64(f), encode.GlobalSet(g.fault), opUnreachable)
}

// blocks adds the functions on blocks.
func (e *kernelEncoder) blocks(g kernelGlobals, size int64) {
	one, two, none := []byte{i64}, []byte{i64, i64}, []byte(nil)
	// alloc(n): p = top + header; end = (p + n + 15) & -8; n is compared first, so that
	// the sum cannot wrap.
	const n, p, end = 0, 1, 2
	e.function("alloc", one, one, 2, encode.Code(
		encode.Get(n), opI64Eqz, when(encode.Const64(0), opReturn),
		encode.Get(n), encode.Const64(size), opI64GtU, when(fault(g, faultMemory)),
		encode.GlobalGet(g.top), encode.Const64(blockHeader), opI64Add, encode.Set(p),
		encode.Get(p), encode.Get(n), opI64Add, encode.Const64(15), opI64Add, encode.Const64(-8), opI64And, encode.Set(end),
		encode.Get(end), encode.Const64(size), opI64GtU, when(fault(g, faultMemory)),
		encode.GlobalGet(g.top), opI32Wrap, encode.Get(p), encode.Const64(blockMark), opI64Xor, opI64Store, 3, 0,
		encode.GlobalGet(g.top), opI32Wrap, encode.Get(n), opI64Store, 3, 8,
		encode.Get(end), encode.GlobalSet(g.top),
		encode.Get(p),
	))
	e.function("free", one, none, 0, nil)
	for _, name := range []string{"length", "length_unsafe"} {
		e.function(name, one, one, 1, blockLength(g))
	}
	// inside encodes: trap unless the n bytes at the address in local 0 lie below top, which
	// is never below inputOffset.
	inside := func(n int64) []byte {
		return encode.Code(encode.Get(0), encode.GlobalGet(g.top), encode.Const64(n), opI64Sub, opI64GtU, when(fault(g, faultRange)))
	}
	at := encode.Code(encode.Get(0), opI32Wrap)
	e.function("load_u8", one, []byte{i32}, 0, encode.Code(inside(1), at, opI32Load8U, 0, 0))
	e.function("load_u64", one, one, 0, encode.Code(inside(8), at, opI64Load, 0, 0))
	e.function("store_u8", []byte{i64, i32}, none, 0, encode.Code(inside(1), at, encode.Get(1), opI32Store8, 0, 0))
	e.function("store_u64", two, none, 0, encode.Code(inside(8), at, encode.Get(1), opI64Store, 0, 0))
	e.function("memory_bytes", none, one, 0, encode.Const64(size))
	// reset is for hosts; a guest that calls it would free the input.
	e.function("reset", none, none, 0, nil)
}

// blockLength encodes: return the length of the block at local 0, or 0 for an address at
// which no block begins.
func blockLength(g kernelGlobals) []byte {
	const o, n = 0, 1
	return encode.Code(
		encode.Get(o), encode.Const64(inputOffset+blockHeader), opI64LtU,
		encode.Get(o), encode.GlobalGet(g.top), opI64GeU, opI32Or,
		when(encode.Const64(0), opReturn),
		encode.Get(o), encode.Const64(blockHeader), opI64Sub, opI32Wrap, opI64Load, 0, 0,
		encode.Get(o), encode.Const64(blockMark), opI64Xor, opI64Ne,
		when(encode.Const64(0), opReturn),
		encode.Get(o), encode.Const64(8), opI64Sub, opI32Wrap, opI64Load, 0, 0, encode.Set(n),
		encode.Get(n), encode.GlobalGet(g.top), encode.Get(o), opI64Sub, opI64GtU,
		when(encode.Const64(0), opReturn),
		encode.Get(n),
	)
}

// input adds the functions on the input. Zeros follow it, so that eight bytes can be loaded
// from any of its offsets. Loads beyond it return 0.
func (e *kernelEncoder) input(g kernelGlobals) {
	one := []byte{i64}
	e.function("input_length", nil, one, 0, encode.GlobalGet(g.inputLength))
	e.function("input_offset", nil, one, 0, encode.Const64(inputOffset))
	beyond := encode.Code(encode.Get(0), encode.GlobalGet(g.inputLength), opI64GeU)
	e.function("input_load_u8", one, []byte{i32}, 0, encode.Code(
		beyond, when(encode.Const32(0), opReturn),
		encode.Get(0), opI32Wrap, opI32Load8U, 0, encode.Uleb(inputOffset)))
	e.function("input_load_u64", one, one, 0, encode.Code(
		beyond, when(encode.Const64(0), opReturn),
		encode.Get(0), opI32Wrap, opI64Load, 0, encode.Uleb(inputOffset)))
	// input_set is for hosts.
	e.function("input_set", []byte{i64, i64}, nil, 0, nil)
}

// output adds the functions on the answer and the error. The host checks the range.
func (e *kernelEncoder) output(g kernelGlobals) {
	one, two := []byte{i64}, []byte{i64, i64}
	e.function("output_set", two, nil, 0, encode.Code(encode.Get(0), encode.GlobalSet(g.outputOffset), encode.Get(1), encode.GlobalSet(g.outputLength)))
	e.function("output_length", nil, one, 0, encode.GlobalGet(g.outputLength))
	e.function("output_offset", nil, one, 0, encode.GlobalGet(g.outputOffset))
	e.function("error_set", one, nil, 0, encode.Code(encode.Get(0), encode.GlobalSet(g.failure)))
	e.function("error_get", nil, one, 0, encode.GlobalGet(g.failure))
}

// kernelEncoder encodes the kernel.
type kernelEncoder struct{ encode.Module }

// function adds an exported function with i64 locals beside its parameters.
func (e *kernelEncoder) function(name string, params, results []byte, locals int, body []byte) {
	e.Export(name, encode.Function, e.Func(params, results, slices.Repeat([]byte{i64}, locals), body))
}

// variable adds an exported mutable i64 global.
func (e *kernelEncoder) variable(name string, initial int64) uint64 {
	index := e.Global(i64, true, encode.Const64(initial))
	e.Export(name, encode.Global, index)
	return uint64(index)
}

// when encodes: if the i32 on the stack is not zero.
func when(body ...any) []byte { return encode.Code(opIf, blockEmpty, encode.Code(body...), opEnd) }

// Value types and instructions of the kernel.
const (
	i32 = encode.I32
	i64 = encode.I64

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
)
