package abi

import (
	"unsafe"

	"github.com/longshore-dev/longshore/sdk/internal/arena"
)

// The functions of the Extism kernel. Offsets are addresses in the kernel's memory, which the
// guest cannot access. It is read and written eight bytes at a time, little endian like wasm
// itself. Wasm needs no alignment, so one instruction copies a word; encoding/binary needs eight,
// and links package reflect.

//go:wasmimport extism:host/env input_length
func inputLength() uint64

//go:wasmimport extism:host/env input_load_u64
func inputLoadU64(offset uint64) uint64

//go:wasmimport extism:host/env input_load_u8
func inputLoadU8(offset uint64) uint32

//go:wasmimport extism:host/env alloc
func alloc(size uint64) uint64

//go:wasmimport extism:host/env store_u64
func storeU64(offset, value uint64)

//go:wasmimport extism:host/env store_u8
func storeU8(offset uint64, value uint32)

//go:wasmimport extism:host/env output_set
func outputSet(offset, length uint64)

//go:wasmimport extism:host/env error_set
func errorSet(offset uint64)

//go:wasmimport extism:host/env log_debug
func logDebug(offset uint64)

//go:wasmimport extism:host/env log_info
func logInfo(offset uint64)

//go:wasmimport extism:host/env log_warn
func logWarn(offset uint64)

//go:wasmimport extism:host/env log_error
func logError(offset uint64)

// word is how many bytes a kernel function copies.
const word = 8

// Input returns a copy of the call's input, with unused capacity for a word.
func Input() []byte {
	length := inputLength()
	data := arena.Bytes(int(length) + word)[:length]
	if length < word {
		for i := range data {
			data[i] = byte(inputLoadU8(uint64(i)))
		}
		return data
	}
	// The last word overlaps the one before it. Four are copied per iteration, because a loop costs more than a call.
	i, last := uint64(0), length-word
	for ; i+4*word <= length; i += 4 * word {
		to := (*[4]uint64)(unsafe.Pointer(&data[i]))
		to[0] = inputLoadU64(i)
		to[1] = inputLoadU64(i + word)
		to[2] = inputLoadU64(i + 2*word)
		to[3] = inputLoadU64(i + 3*word)
	}
	for ; i < last; i += word {
		*(*uint64)(unsafe.Pointer(&data[i])) = inputLoadU64(i)
	}
	*(*uint64)(unsafe.Pointer(&data[last])) = inputLoadU64(last)
	return data
}

// store copies data into a new block of the host's memory and returns its address.
func store(data []byte) uint64 {
	length := uint64(len(data))
	offset := alloc(length)
	if length < word {
		for i, c := range data {
			storeU8(offset+uint64(i), uint32(c))
		}
		return offset
	}
	i, last := uint64(0), length-word
	for ; i+4*word <= length; i += 4 * word {
		from := (*[4]uint64)(unsafe.Pointer(&data[i]))
		storeU64(offset+i, from[0])
		storeU64(offset+i+word, from[1])
		storeU64(offset+i+2*word, from[2])
		storeU64(offset+i+3*word, from[3])
	}
	for ; i < last; i += word {
		storeU64(offset+i, *(*uint64)(unsafe.Pointer(&data[i])))
	}
	storeU64(offset+last, *(*uint64)(unsafe.Pointer(&data[last])))
	return offset
}

// Output sets the call's output.
func Output(data []byte) { outputSet(store(data), uint64(len(data))) }

// Fail sets the call's error; the export must then return Failed.
func Fail(message string) { errorSet(store([]byte(message))) }

// Log writes a line to the host's log.
func Log(level Level, message string) {
	offset := store([]byte(message))
	switch level {
	case Debug:
		logDebug(offset)
	case Warn:
		logWarn(offset)
	case Error:
		logError(offset)
	case Info:
		logInfo(offset)
	}
}
