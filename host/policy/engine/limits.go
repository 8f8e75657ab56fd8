package engine

import (
	"math"
	"time"

	"github.com/longshore-dev/longshore/sdk/contract"
)

// Limits bound what a call may use. A zero field means the contract's default.
type Limits struct {
	// Fuel is the number of ticks of a call, at most MaxInt64.
	Fuel uint64
	// StartFuel is the number of ticks that starting the module may take, once per load.
	StartFuel uint64
	// Time bounds the processor's time of a call, where the fuel does not end it sooner.
	// StartTime is the same for starting the module.
	Time, StartTime time.Duration
	// MemoryBytes bounds the module's linear memory, rounded down to pages of 64 KiB.
	MemoryBytes uint64
	// RequestBytes bounds the input of a call.
	RequestBytes int
	// ResponseBytes bounds the output of a call.
	ResponseBytes int
	// StderrBytes bounds what is kept of the guest's standard output and error.
	StderrBytes int
	// LogLines bounds the log lines of a call.
	LogLines int
	// Instances bounds the instances of the module, and so the calls that run at once; it is
	// at most two for each processor, one in use and one being set back.
	Instances int
	// Trusted says that the module is the host's own: it is compiled in this process, in
	// whatever time that takes.
	Trusted bool
}

// BuiltIn returns the limits of the built-in policies. They are those of no other module:
// their author answers for them, and they must handle the largest object that an API server
// stores, which takes them about 40 M ticks and 65 MiB.
func BuiltIn() Limits {
	const fuel, memory, message, longest = 400_000_000, 128 << 20, 8 << 20, 10 * time.Second
	return Limits{Fuel: fuel, Time: longest, MemoryBytes: memory, RequestBytes: message, ResponseBytes: message, Trusted: true}
}

const (
	pageBytes = 64 << 10
	// defaultStartFuel lets the runtime of a large Go guest start.
	defaultStartFuel = 20 * contract.DefaultFuel
	// defaultTime of a call; the fuel of most calls takes less.
	defaultTime      = 50 * time.Millisecond
	defaultStartTime = 20 * defaultTime
	// defaultInstances bounds what a module costs on machines with many processors.
	defaultInstances = 4
	perProcessor     = 2
	// maxLineBytes bounds a log line.
	maxLineBytes = 1 << 10
	// maxVariableBytes bounds the names and values of the variables of one call.
	maxVariableBytes = 64 << 10
	// kernelSlack is what the kernel's memory holds beside request and answer: log
	// lines, messages, blocks that the guest allocates on the way.
	kernelSlack = 1 << 20
)

// withDefaults fills in what is not set. procs bounds the instances.
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

// kernelPages is the size of the kernel's memory.
func (l *Limits) kernelPages() uint32 {
	bytes := uint64(l.RequestBytes) + uint64(l.ResponseBytes) + kernelSlack
	return uint32(min((bytes+pageBytes-1)/pageBytes, 1<<15))
}
