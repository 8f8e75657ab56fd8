package engine

import (
	"math"
	"time"

	"github.com/longshore-dev/longshore/sdk/contract"
)

// Limits bound the resources of a call. A zero field means the contract's default.
type Limits struct {
	// Fuel is the number of ticks of a call, at most MaxInt64.
	Fuel uint64
	// StartFuel is the number of ticks that starting the module may take, once per load.
	StartFuel uint64
	// Time is the CPU time after which a call is ended, if its fuel lasts so long; the call takes at
	// most two slices of fuel, 4 ms, longer. StartTime is that of the start of the module.
	Time, StartTime time.Duration
	// MemoryBytes bounds the module's linear memory, rounded down to pages of 64 KiB.
	MemoryBytes uint64
	// RequestBytes bounds the input of a call.
	RequestBytes int
	// ResponseBytes bounds the output of a call.
	ResponseBytes int
	// StderrBytes bounds the recorded standard output and error of a call.
	StderrBytes int
	// LogLines bounds the log lines of a call.
	LogLines int
	// Instances bounds the instances of the module, and so its concurrent calls. It is at
	// most two for each processor: one in use, and one that is reset.
	Instances int
	// Trusted marks the host's own module, which is compiled in this process without limits.
	Trusted bool
}

// BuiltIn returns the limits of the built-in policies only. These must handle the largest
// object that an API server stores, which takes them about 40 M ticks and 65 MiB.
func BuiltIn() Limits {
	const fuel, memory, message, longest = 400_000_000, 128 << 20, 8 << 20, 10 * time.Second
	return Limits{Fuel: fuel, Time: longest, MemoryBytes: memory, RequestBytes: message, ResponseBytes: message, Trusted: true}
}

const (
	pageBytes = 64 << 10
	// defaultStartFuel lets the runtime of a large Go guest start.
	defaultStartFuel = 20 * contract.DefaultFuel
	// maxTime is what a call with the default limits takes at most; the fuel of most calls takes less.
	maxTime          = 50 * time.Millisecond
	defaultTime      = maxTime - 2*sliceTime
	defaultStartTime = time.Second
	// defaultInstances bounds the memory of a module on machines with many processors.
	defaultInstances = 4
	perProcessor     = 2
	// maxLineBytes bounds a log line.
	maxLineBytes = 1 << 10
	// maxVariableBytes bounds the names and values of the variables of one call.
	maxVariableBytes = 64 << 10
	// kernelSlack is the kernel's memory for other blocks than request and answer, such as
	// log lines and messages.
	kernelSlack = 1 << 20
)

// withDefaults sets the zero fields. procs bounds the instances.
func (l Limits) withDefaults(procs int) Limits {
	set := func(v *uint64, d uint64) {
		if *v == 0 {
			*v = d
		}
		*v = min(*v, math.MaxInt64)
	}
	setInt := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	set(&l.Fuel, contract.DefaultFuel)
	set(&l.StartFuel, defaultStartFuel)
	if l.Time <= 0 {
		l.Time = defaultTime
	}
	if l.StartTime <= 0 {
		l.StartTime = defaultStartTime
	}
	set(&l.MemoryBytes, contract.DefaultMemoryBytes)
	l.MemoryBytes = min(l.MemoryBytes/pageBytes, 1<<16) * pageBytes
	setInt(&l.RequestBytes, contract.MaxRequestBytes)
	setInt(&l.ResponseBytes, contract.MaxResponseBytes)
	setInt(&l.StderrBytes, contract.MaxStderrBytes)
	setInt(&l.LogLines, contract.MaxLogLines)
	setInt(&l.Instances, defaultInstances)
	l.Instances = min(l.Instances, perProcessor*procs)
	return l
}

// kernelPages returns the size of the kernel's memory.
func (l *Limits) kernelPages() uint32 {
	bytes := uint64(l.RequestBytes) + uint64(l.ResponseBytes) + kernelSlack
	return uint32(min((bytes+pageBytes-1)/pageBytes, 1<<15))
}

// raiseHint ends a message about a limit that a policy has lowered below the host's bound. A
// policy cannot raise a limit above the bound.
func raiseHint(limit, bound uint64) string {
	if limit >= bound {
		return ""
	}
	return ", or the operator may raise the limit"
}
