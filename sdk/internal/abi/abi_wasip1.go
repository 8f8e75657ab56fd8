package abi

import "unsafe"

// The functions of the Extism kernel. Offsets are addresses in the host's memory,
// which the guest cannot see; it is read and written eight bytes at a time, little
// endian, which is wasm's own order; wasm needs no alignment, so a word is moved by one
// instruction where encoding/binary takes eight and links reflection.

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

// Input returns a copy of the call's input.
func Input() []byte {
	length := inputLength()
	data := make([]byte, length)
	i := uint64(0)
	for ; i+8 <= length; i += 8 {
		*(*uint64)(unsafe.Pointer(&data[i])) = inputLoadU64(i)
	}
	for ; i < length; i++ {
		data[i] = byte(inputLoadU8(i))
	}
	return data
}

// store copies data into a new block of the host's memory and returns its address.
func store(data []byte) uint64 {
	offset := alloc(uint64(len(data)))
	i := 0
	for ; i+8 <= len(data); i += 8 {
		storeU64(offset+uint64(i), *(*uint64)(unsafe.Pointer(&data[i])))
	}
	for ; i < len(data); i++ {
		storeU8(offset+uint64(i), uint32(data[i]))
	}
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
