package contract

// Defaults of the limits that the host puts on a module. A binding can lower
// them.
const (
	// DefaultFuel is the number of ticks that a call may use: one for each function entry
	// and loop iteration, and more for what takes longer (docs/explanation/sandbox.md).
	DefaultFuel = 2_000_000
	// DefaultMemoryBytes bounds the linear memory of an instance.
	DefaultMemoryBytes = 32 << 20
	// MaxFuel is the most fuel that spec.limits of a policy can grant to a call: the host's
	// promise of how long a call takes at most rests on it.
	MaxFuel = DefaultFuel
	// MaxMemoryBytes is the most memory that spec.limits of a policy can grant to an instance.
	MaxMemoryBytes = DefaultMemoryBytes
	// MaxRequestBytes bounds an encoded [Request].
	MaxRequestBytes = 1 << 20
	// MaxResponseBytes bounds an encoded [Response].
	MaxResponseBytes = 256 << 10
	// MaxStderrBytes bounds what is kept of a guest's standard error, per call.
	MaxStderrBytes = 4 << 10
	// MaxLogLines bounds the log lines of one call.
	MaxLogLines = 32
	// MaxModuleBytes bounds an unpacked module.
	MaxModuleBytes = 16 << 20
	// MaxOperations bounds the operations of one answer.
	MaxOperations = 256
	// MaxValueDepth bounds the nesting of an operation's value, and of settings.
	MaxValueDepth = 32
	// MaxSettingsBytes bounds the settings of a binding, which are in every request.
	MaxSettingsBytes = 256 << 10
	// MaxWarnings bounds the warnings of one answer.
	MaxWarnings = 8
)
