package compiler

import "time"

// Budget bounds the resources for compiling a module.
type Budget struct {
	// CPU time of the process, whole seconds.
	CPU time.Duration
	// MemoryBytes of the process.
	MemoryBytes int64
	// CodeBytes of the result.
	CodeBytes int64
}

const (
	baseCPU = 4 * time.Second
	// moreCPU is for each further cpuBytes.
	moreCPU = 2 * time.Second
	// includedBytes of a module are compiled within baseCPU, and each further cpuBytes within moreCPU: six
	// times the time for code of the Go, Rust and C compilers, since CPU time is longer on a busy machine.
	includedBytes = 2 << 20
	cpuBytes      = 1 << 20
	// memoryBytes is the memory of the compiler, beside that of an idle process.
	memoryBytes = 256 << 20
	// Machine code has three to five times the size of the module.
	baseCodeBytes = 1 << 20
	codeFactor    = 16
)

// BudgetOf returns the budget of a metered module of a size in bytes: 4 seconds and 256
// MiB, and for a module of more than 2 MiB two seconds for each further MiB.
func BudgetOf(size int) Budget {
	more := max(0, size-includedBytes+cpuBytes-1) / cpuBytes
	return Budget{
		CPU:         baseCPU + time.Duration(more)*moreCPU,
		MemoryBytes: memoryBytes,
		CodeBytes:   baseCodeBytes + codeFactor*int64(size),
	}
}
