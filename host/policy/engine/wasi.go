package engine

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"
)

// The WASI stub has all functions of preview 1, since language runtimes import them, but
// gives no access to the machine: the clock stands still (a sleep moves it and returns at
// once), random numbers begin with a constant seed, there are no files and no environment
// variables, and the only argument is the program's name.

const (
	wasiModule = "wasi_snapshot_preview1"
	// argument is the program's name; some libraries read it when they start.
	argument = "policy\x00"
	// clockStart is the time at the beginning of each call: 2020-01-01T00:00:00Z in
	// nanoseconds.
	clockStart = 1_577_836_800_000_000_000
	// randomSeed is the increment of splitmix64.
	randomSeed = 0x9e3779b97f4a7c15
	// maxVectors bounds the pieces of a write and the events of a wait.
	maxVectors = 1024
	// hostParts is the cost of a call of a host function in parts of ticks, and lineParts that
	// of a log line. A part pays for bytesPerPart bytes of a copy, or for randomPerPart random
	// bytes.
	hostParts     = 1
	bytesPerPart  = 2048
	randomPerPart = 256
	lineParts     = 32
)

// Error numbers of WASI.
const (
	wasiOK     = 0
	wasiBadFD  = 8
	wasiFault  = 21
	wasiInval  = 28
	wasiNoSys  = 52
	wasiNoSpec = 58 // not supported
)

// wasiFunction is a function of the stub with its signature: a letter per parameter,
// "i" for i32 and "I" for i64.
type wasiFunction struct {
	params string
	// run may be nil; the function returns number then.
	run    func(i *instance, guest api.Memory, stack []uint64) uint32
	number uint32
}

// wasiFunctions are all functions but proc_exit, which does not return.
var wasiFunctions = map[string]wasiFunction{
	"args_get":                {params: "ii", run: wasiArguments},
	"args_sizes_get":          {params: "ii", run: wasiArgumentSizes},
	"clock_res_get":           {params: "ii", run: wasiResolution},
	"clock_time_get":          {params: "iIi", run: wasiTime},
	"environ_get":             {params: "ii"},
	"environ_sizes_get":       {params: "ii", run: wasiNoEnvironment},
	"fd_advise":               {params: "iIIi", number: wasiBadFD},
	"fd_allocate":             {params: "iII", number: wasiBadFD},
	"fd_close":                {params: "i", number: wasiBadFD},
	"fd_datasync":             {params: "i", number: wasiBadFD},
	"fd_fdstat_get":           {params: "ii", number: wasiBadFD},
	"fd_fdstat_set_flags":     {params: "ii", number: wasiBadFD},
	"fd_fdstat_set_rights":    {params: "iII", number: wasiBadFD},
	"fd_filestat_get":         {params: "ii", number: wasiBadFD},
	"fd_filestat_set_size":    {params: "iI", number: wasiBadFD},
	"fd_filestat_set_times":   {params: "iIIi", number: wasiBadFD},
	"fd_pread":                {params: "iiiIi", number: wasiBadFD},
	"fd_prestat_dir_name":     {params: "iii", number: wasiBadFD},
	"fd_prestat_get":          {params: "ii", number: wasiBadFD},
	"fd_pwrite":               {params: "iiiIi", number: wasiBadFD},
	"fd_read":                 {params: "iiii", number: wasiBadFD},
	"fd_readdir":              {params: "iiiIi", number: wasiBadFD},
	"fd_renumber":             {params: "ii", number: wasiBadFD},
	"fd_seek":                 {params: "iIii", number: wasiBadFD},
	"fd_sync":                 {params: "i", number: wasiBadFD},
	"fd_tell":                 {params: "ii", number: wasiBadFD},
	"fd_write":                {params: "iiii", run: wasiWrite},
	"path_create_directory":   {params: "iii", number: wasiBadFD},
	"path_filestat_get":       {params: "iiiii", number: wasiBadFD},
	"path_filestat_set_times": {params: "iiiiIIi", number: wasiBadFD},
	"path_link":               {params: "iiiiiii", number: wasiBadFD},
	"path_open":               {params: "iiiiiIIii", number: wasiBadFD},
	"path_readlink":           {params: "iiiiii", number: wasiBadFD},
	"path_remove_directory":   {params: "iii", number: wasiBadFD},
	"path_rename":             {params: "iiiiii", number: wasiBadFD},
	"path_symlink":            {params: "iiiii", number: wasiBadFD},
	"path_unlink_file":        {params: "iii", number: wasiBadFD},
	"poll_oneoff":             {params: "iiii", run: wasiPoll},
	"proc_raise":              {params: "i", number: wasiNoSys},
	"random_get":              {params: "ii", run: wasiRandom},
	"sched_yield":             {params: ""},
	"sock_accept":             {params: "iii", number: wasiBadFD},
	"sock_recv":               {params: "iiiiii", number: wasiBadFD},
	"sock_send":               {params: "iiiii", number: wasiBadFD},
	"sock_shutdown":           {params: "ii", number: wasiBadFD},
}

// instantiateWASI defines the stub.
func instantiateWASI(ctx context.Context, runtime wazero.Runtime) error {
	b := runtime.NewHostModuleBuilder(wasiModule)
	for name, f := range wasiFunctions {
		params := make([]api.ValueType, len(f.params))
		for n, letter := range f.params {
			params[n] = api.ValueTypeI32
			if letter == 'I' {
				params[n] = api.ValueTypeI64
			}
		}
		b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(ctx context.Context, guest api.Module, stack []uint64) {
			stack[0] = uint64(f.answer(instanceOf(ctx), guest, stack))
		}), params, []api.ValueType{api.ValueTypeI32}).Export(name)
	}
	b.NewFunctionBuilder().WithGoFunction(api.GoFunc(func(_ context.Context, stack []uint64) {
		// A panic with this value is how wazero unwinds the guest's stack.
		panic(sys.NewExitError(uint32(stack[0])))
	}), []api.ValueType{api.ValueTypeI32}, nil).Export("proc_exit")
	if _, err := b.Instantiate(ctx); err != nil {
		return fmt.Errorf("defining the WASI stub: %w", err)
	}
	return nil
}

func (f *wasiFunction) answer(i *instance, guest api.Module, stack []uint64) uint32 {
	i.spend(hostParts)
	if f.run == nil {
		return f.number
	}
	if !i.module.hasMemory {
		return wasiFault
	}
	return f.run(i, guest.Memory(), stack)
}

// faultUnless turns the result of a memory access into an error number.
func faultUnless(ok bool) uint32 {
	if ok {
		return wasiOK
	}
	return wasiFault
}

func wasiArguments(_ *instance, m api.Memory, s []uint64) uint32 {
	return faultUnless(m.WriteUint32Le(uint32(s[0]), uint32(s[1])) && m.WriteString(uint32(s[1]), argument))
}

func wasiArgumentSizes(_ *instance, m api.Memory, s []uint64) uint32 {
	return faultUnless(m.WriteUint32Le(uint32(s[0]), 1) && m.WriteUint32Le(uint32(s[1]), uint32(len(argument))))
}

func wasiNoEnvironment(_ *instance, m api.Memory, s []uint64) uint32 {
	return faultUnless(m.WriteUint32Le(uint32(s[0]), 0) && m.WriteUint32Le(uint32(s[1]), 0))
}

func wasiResolution(_ *instance, m api.Memory, s []uint64) uint32 {
	return faultUnless(m.WriteUint64Le(uint32(s[1]), 1))
}

func wasiTime(i *instance, m api.Memory, s []uint64) uint32 {
	return faultUnless(m.WriteUint64Le(uint32(s[2]), i.environment.now))
}

// wasiRandom fills the buffer with numbers of splitmix64. They are not secret: every call
// gets the same ones.
func wasiRandom(i *instance, m api.Memory, s []uint64) uint32 {
	length := uint32(s[1])
	if !i.spend(int64(length / randomPerPart)) {
		return wasiInval
	}
	buffer, ok := m.Read(uint32(s[0]), length)
	if !ok {
		return wasiFault
	}
	for len(buffer) >= 8 {
		binary.LittleEndian.PutUint64(buffer, i.environment.nextRandom())
		buffer = buffer[8:]
	}
	if len(buffer) > 0 {
		var last [8]byte
		binary.LittleEndian.PutUint64(last[:], i.environment.nextRandom())
		copy(buffer, last[:])
	}
	return wasiOK
}

// nextRandom returns the next number of splitmix64.
func (e *environment) nextRandom() uint64 {
	e.random += randomSeed
	z := e.random
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// wasiWrite records the beginning of the guest's standard output and error.
func wasiWrite(i *instance, m api.Memory, s []uint64) uint32 {
	if fd := uint32(s[0]); fd != 1 && fd != 2 {
		return wasiBadFD
	}
	vectors, count := uint32(s[1]), uint32(s[2])
	if count > maxVectors || !i.spend(int64(count)) {
		return wasiInval
	}
	var total uint64
	for n := range count {
		address, ok1 := m.ReadUint32Le(vectors + 8*n)
		length, ok2 := m.ReadUint32Le(vectors + 8*n + 4)
		if !ok1 || !ok2 {
			return wasiFault
		}
		room := uint32(max(0, i.module.limits.StderrBytes-len(i.stderr)))
		text, ok := m.Read(address, min(length, room))
		if !ok {
			return wasiFault
		}
		i.stderr = append(i.stderr, text...)
		total += uint64(length)
	}
	if total > math.MaxUint32 {
		return wasiInval
	}
	return faultUnless(m.WriteUint32Le(uint32(s[3]), uint32(total)))
}

// wasiPoll waits for clocks only, and returns at once: it moves the clock to the time of the
// earliest.
func wasiPoll(i *instance, m api.Memory, s []uint64) uint32 {
	const subscriptionBytes, eventBytes, absolute = 48, 32, 1
	in, out, count := uint32(s[0]), uint32(s[1]), uint32(s[2])
	if count == 0 || count > maxVectors || !i.spend(int64(count)) {
		return wasiInval
	}
	earliest := uint64(math.MaxUint64)
	for n := range count {
		subscription, ok := m.Read(in+n*subscriptionBytes, subscriptionBytes)
		if !ok {
			return wasiFault
		}
		event := make([]byte, eventBytes)
		copy(event, subscription[:8])
		event[10] = subscription[8]
		if subscription[8] == 0 {
			at := binary.LittleEndian.Uint64(subscription[24:])
			if binary.LittleEndian.Uint16(subscription[40:])&absolute == 0 {
				at = i.environment.now + min(at, math.MaxInt64)
			}
			earliest = min(earliest, at)
		} else {
			event[8] = wasiNoSpec
		}
		if !m.Write(out+n*eventBytes, event) {
			return wasiFault
		}
	}
	if earliest != math.MaxUint64 {
		i.environment.now = max(i.environment.now, earliest)
	}
	return faultUnless(m.WriteUint32Le(uint32(s[3]), count))
}
