package engine

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
type kernelGlobals struct{ inputLength, top, outputOffset, outputLength, failure, fault uint32 }

// blockEnd rounds the end of a block up, so that headers are aligned and eight bytes
// can be loaded from the last byte of a block.
func blockEnd(end uint64) uint64 { return (end + 15) &^ 7 }

// kernel encodes the kernel with a memory of the given number of pages.
func kernel(pages uint32) []byte {
	e := &emitter{}
	one, two, none := []byte{i64}, []byte{i64, i64}, []byte(nil)
	log := e.importFunction(kernelHostModule, "log", []byte{i32, i64}, none)
	varGet := e.importFunction(kernelHostModule, "var_get", one, one)
	varSet := e.importFunction(kernelHostModule, "var_set", two, none)
	denied := e.importFunction(kernelHostModule, "denied", one, none)
	g := kernelGlobals{
		inputLength:  e.variable("global.input_length", 0),
		top:          e.variable("global.top", inputOffset),
		outputOffset: e.variable("global.output_offset", 0),
		outputLength: e.variable("global.output_length", 0),
		failure:      e.variable("global.failure", 0),
		fault:        e.variable("global.fault", faultNone),
	}
	e.memory(g, int64(pages)*pageBytes)
	e.input(g)
	e.output(g)
	for i, name := range []string{"log_trace", "log_debug", "log_info", "log_warn", "log_error"} {
		e.function(name, one, none, 0, code(const32(int64(i)), local(0), call(log)))
	}
	e.function("get_log_level", none, []byte{i32}, 0, const32(kernelLogLevel))
	// Settings travel in the request.
	e.function("config_get", one, one, 0, const64(0))
	e.function("var_get", one, one, 0, code(local(0), call(varGet)))
	e.function("var_set", two, none, 0, code(local(0), local(1), call(varSet)))
	e.function("http_request", two, one, 0, code(local(0), call(denied), fault(g, faultDenied)))
	e.function("http_status_code", none, []byte{i32}, 0, const32(0))
	e.function("http_headers", none, one, 0, const64(0))
	return e.module(pages)
}

// fault encodes: set the global "fault" and trap.
func fault(g kernelGlobals, f int64) []byte {
	return code(const64(f), setGlobal(g.fault), opUnreachable)
}

// memory adds the functions on blocks.
func (e *emitter) memory(g kernelGlobals, size int64) {
	one, two, none := []byte{i64}, []byte{i64, i64}, []byte(nil)
	// alloc(n): p = top + header; end = (p + n + 15) & -8; n is compared first, so that
	// the sum cannot wrap.
	const n, p, end = 0, 1, 2
	e.function("alloc", one, one, 2, code(
		local(n), opI64Eqz, when(const64(0), opReturn),
		local(n), const64(size), opI64GtU, when(fault(g, faultMemory)),
		global(g.top), const64(blockHeader), opI64Add, setLocal(p),
		local(p), local(n), opI64Add, const64(15), opI64Add, const64(-8), opI64And, setLocal(end),
		local(end), const64(size), opI64GtU, when(fault(g, faultMemory)),
		global(g.top), opI32Wrap, local(p), const64(blockMark), opI64Xor, opI64Store, 3, 0,
		global(g.top), opI32Wrap, local(n), opI64Store, 3, 8,
		local(end), setGlobal(g.top),
		local(p),
	))
	e.function("free", one, none, 0, nil)
	for _, name := range []string{"length", "length_unsafe"} {
		e.function(name, one, one, 1, blockLength(g))
	}
	// inside encodes: trap unless the n bytes at the address in local 0 lie below top, which
	// is never below inputOffset.
	inside := func(n int64) []byte {
		return code(local(0), global(g.top), const64(n), opI64Sub, opI64GtU, when(fault(g, faultRange)))
	}
	at := code(local(0), opI32Wrap)
	e.function("load_u8", one, []byte{i32}, 0, code(inside(1), at, opI32Load8U, 0, 0))
	e.function("load_u64", one, one, 0, code(inside(8), at, opI64Load, 0, 0))
	e.function("store_u8", []byte{i64, i32}, none, 0, code(inside(1), at, local(1), opI32Store8, 0, 0))
	e.function("store_u64", two, none, 0, code(inside(8), at, local(1), opI64Store, 0, 0))
	e.function("memory_bytes", none, one, 0, const64(size))
	// reset is for hosts; a guest that calls it would free the input.
	e.function("reset", none, none, 0, nil)
}

// blockLength encodes: return the length of the block at local 0, or 0 for an address at
// which no block begins.
func blockLength(g kernelGlobals) []byte {
	const o, n = 0, 1
	return code(
		local(o), const64(inputOffset+blockHeader), opI64LtU,
		local(o), global(g.top), opI64GeU, opI32Or,
		when(const64(0), opReturn),
		local(o), const64(blockHeader), opI64Sub, opI32Wrap, opI64Load, 0, 0,
		local(o), const64(blockMark), opI64Xor, opI64Ne,
		when(const64(0), opReturn),
		local(o), const64(8), opI64Sub, opI32Wrap, opI64Load, 0, 0, setLocal(n),
		local(n), global(g.top), local(o), opI64Sub, opI64GtU,
		when(const64(0), opReturn),
		local(n),
	)
}

// input adds the functions on the input. Zeros follow it, so that eight bytes can be loaded
// from any of its offsets. Loads beyond it return 0.
func (e *emitter) input(g kernelGlobals) {
	one := []byte{i64}
	e.function("input_length", nil, one, 0, global(g.inputLength))
	e.function("input_offset", nil, one, 0, const64(inputOffset))
	beyond := code(local(0), global(g.inputLength), opI64GeU)
	e.function("input_load_u8", one, []byte{i32}, 0, code(
		beyond, when(const32(0), opReturn),
		local(0), opI32Wrap, opI32Load8U, 0, uleb(inputOffset)))
	e.function("input_load_u64", one, one, 0, code(
		beyond, when(const64(0), opReturn),
		local(0), opI32Wrap, opI64Load, 0, uleb(inputOffset)))
	// input_set is for hosts.
	e.function("input_set", []byte{i64, i64}, nil, 0, nil)
}

// output adds the functions on the answer and the error. The host checks the range.
func (e *emitter) output(g kernelGlobals) {
	one, two := []byte{i64}, []byte{i64, i64}
	e.function("output_set", two, nil, 0, code(local(0), setGlobal(g.outputOffset), local(1), setGlobal(g.outputLength)))
	e.function("output_length", nil, one, 0, global(g.outputLength))
	e.function("output_offset", nil, one, 0, global(g.outputOffset))
	e.function("error_set", one, nil, 0, code(local(0), setGlobal(g.failure)))
	e.function("error_get", nil, one, 0, global(g.failure))
}
