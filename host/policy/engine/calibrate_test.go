package engine_test

import (
	"encoding/binary"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/longshore-dev/longshore/host/policy/encode"
	"github.com/longshore-dev/longshore/host/policy/engine"
)

// class is a kind of instructions. Its code uses the local variables below and leaves
// nothing on the stack; it is repeated in a loop without end.
type class struct {
	code []byte
	// times is how often the code stands in the loop; unless it is set, as often as fits into a long
	// function. In a short loop, cheap instructions are covered by the tick of each iteration.
	times int
	// data is the size of a passive data segment.
	data int
	// chain fills all memory before with a chain of addresses, each in another cache line and
	// mostly on another page than the last.
	chain bool
}

// Local variables of a class: two of each type, and a random number that changes.
const (
	word, otherWord     = 0, 1
	long, otherLong     = 2, 3
	float, otherFloat   = 4, 5
	double, otherDouble = 6, 7
	wide, otherWide     = 8, 9
	chaos               = 10
)

// longBody is the size of the code of a loop, which costs more than a tick, and manyBranches the number
// of its branches.
const (
	longBody     = 64 << 10
	manyBranches = 1024
)

// manyLocals is how many local variables there are beside those.
const manyLocals = 500

// tiny is a number that processors calculate with slowly.
const tiny = math.SmallestNonzeroFloat64

func binaryOf(a, b uint64, op ...any) []byte {
	return encode.Code(encode.Get(a), encode.Get(b), encode.Code(op...), encode.Set(a))
}

// classes are those of the instructions and host functions that take longest for what they
// cost, as the attacks on earlier versions did, and ordinary ones.
func classes() map[string]class {
	next := encode.Code(encode.Get(chaos), encode.Const64(6364136223846793005), 0x7e, encode.Const64(1442695040888963407), 0x7c, 0x22, chaos)
	somewhere := encode.Code(next, encode.Const64(39), 0x88, 0xa7, encode.Const32(0x1fffff0), 0x71)
	bit := encode.Code(next, encode.Const64(63), 0x88, 0xa7)
	two := encode.Code(next, encode.Const64(62), 0x88, 0xa7)
	fill := func(n int64) []byte {
		return encode.Code(encode.Const32(0), encode.Const32(7), encode.Const32(n), 0xfc, 11, 0)
	}
	move := func(to, from, n int64) []byte {
		return encode.Code(encode.Const32(to), encode.Const32(from), encode.Const32(n), 0xfc, 10, 0, 0)
	}
	initialize := func(n int64) []byte {
		return encode.Code(encode.Const32(0), encode.Const32(0), encode.Const32(n), 0xfc, 8, 0, 0)
	}
	var many []byte
	for n := range uint64(manyLocals) {
		many = append(many, encode.Code(encode.Get(chaos), encode.Const64(int64(n)), 0x7c, encode.Set(chaos+1+n))...)
	}
	return map[string]class{
		"dependent loads":           {code: encode.Code(encode.Get(word), 0x28, 2, 0, encode.Set(word)), chain: true},
		"dependent wide loads":      {code: encode.Code(encode.Get(word), 0xfd, 0, 0, 0, 0xfd, 0x1b, 0, encode.Set(word)), chain: true},
		"loads from anywhere":       {code: encode.Code(somewhere, 0x28, 2, 0, encode.Set(word))},
		"stores to anywhere":        {code: encode.Code(somewhere, encode.Get(word), 0x36, 2, 0)},
		"near loads":                {code: encode.Code(encode.Get(otherWord), 0x28, 2, 0, encode.Get(word), 0x6a, encode.Set(word))},
		"additions":                 {code: binaryOf(word, otherWord, 0x6a)},
		"multiplications":           {code: binaryOf(long, otherLong, 0x7e)},
		"divisions":                 {code: binaryOf(long, otherLong, 0x80)},
		"counting zeros":            {code: encode.Code(encode.Get(long), 0x79, encode.Set(long))},
		"float multiplications":     {code: binaryOf(double, otherDouble, 0xa2)},
		"divisions of tiny numbers": {code: binaryOf(double, otherDouble, 0xa3)},
		"products of tiny numbers":  {code: binaryOf(float, otherFloat, 0x94)},
		"square roots":              {code: encode.Code(encode.Get(double), 0x9f, encode.Set(double))},
		"conversions":               {code: encode.Code(encode.Get(float), 0xbb, 0xb6, encode.Set(float))},
		"truncations":               {code: encode.Code(encode.Get(double), 0xfc, 6, 0xb9, encode.Set(double))},
		"vector multiplications":    {code: binaryOf(wide, otherWide, 0xfd, 0xd5, 1)},
		"vector divisions":          {code: binaryOf(wide, otherWide, 0xfd, 0xf3, 1)},
		"vector conversions":        {code: encode.Code(encode.Get(wide), 0xfd, 0xfd, 1, encode.Set(wide))},
		"unpredictable branches":    {code: encode.Code(bit, 0x04, 0x40, encode.Get(word), encode.Const32(7), 0x6c, encode.Set(word), 0x0b), times: manyBranches},
		"unpredictable jump tables": {code: encode.Code(0x02, 0x40, 0x02, 0x40, 0x02, 0x40, 0x02, 0x40, two, 0x0e, 3, 0, 1, 2, 3, 0x0b, 0x0b, 0x0b, 0x0b), times: manyBranches},
		"an empty loop":             {code: nil},
		"moves where paths meet":    {code: encode.Code(encode.Get(otherWord), 0x45, 0x04, 0x40, many, 0x0b), times: 16},
		"references to functions":   {code: encode.Code(0xd2, 7, 0xd1, encode.Set(word))},
		"entries of a table":        {code: encode.Code(encode.Const32(3), 0x25, 0, 0xd1, encode.Set(word))},
		"globals":                   {code: encode.Code(encode.GlobalGet(0), encode.Const32(3), 0x6a, encode.GlobalSet(0))},
		"calls":                     {code: encode.Call(7)},
		"calls with many locals":    {code: encode.Call(8), times: 8},
		"unpredictable calls":       {code: encode.Code(two, 0x11, 5, 0)},
		"calls of the kernel":       {code: encode.Code(encode.Const64(200), encode.Call(1), encode.Set(long))},
		"calls through a table":     {code: encode.Code(encode.Const64(200), encode.Const32(4), 0x11, 1, 0, encode.Set(long))},
		"calls of the host":         {code: encode.Code(encode.Const32(0), encode.Const64(0), encode.Const32(8), encode.Call(0), encode.Set(word))},
		"variables with long keys":  {code: encode.Code(encode.GlobalGet(1), encode.Call(3), encode.Set(long))},
		"variables that are set":    {code: encode.Code(encode.GlobalGet(2), encode.GlobalGet(2), encode.Call(4))},
		"log lines":                 {code: encode.Code(encode.GlobalGet(1), encode.Call(5))},
		"random bytes":              {code: encode.Code(encode.Const32(0), encode.Const32(1<<16), encode.Call(6), encode.Set(word)), times: 4},
		"memory.grow by nothing":    {code: encode.Code(encode.Const32(0), 0x40, 0, encode.Set(word))},
		"memory.size":               {code: encode.Code(encode.Get(word), 0x3f, 0, 0x6a, encode.Set(word))},
		"filling a little":          {code: fill(64)},
		"filling much":              {code: fill(16 << 20), times: 1},
		"initializing a little":     {code: initialize(256), data: 256},
		"initializing much":         {code: initialize(1 << 20), data: 1 << 20, times: 1},
		"copying a little":          {code: move(64, 4096, 256)},
		"copying much":              {code: move(0, 15<<20, 15<<20), times: 1},
		"copying what overlaps":     {code: move(8, 0, 16<<20), times: 1},
	}
}

// bytesOf encodes a number for f64.const.
func bytesOf(v float64) []byte { return binary.LittleEndian.AppendUint64(nil, math.Float64bits(v)) }

// guest is a module whose function "f" repeats a class without end.
func (c class) guest() []byte {
	w, none := []byte{encode.I64}, []byte(nil)
	m := &encode.Module{}
	m.Import("wasi_snapshot_preview1", "clock_time_get", []byte{encode.I32, encode.I64, encode.I32}, []byte{encode.I32})
	m.Import("extism:host/env", "length", w, w)
	alloc := m.Import("extism:host/env", "alloc", w, w)
	m.Import("extism:host/env", "var_get", w, w)
	m.Import("extism:host/env", "var_set", []byte{encode.I64, encode.I64}, none)
	m.Import("extism:host/env", "log_info", w, none)
	m.Import("wasi_snapshot_preview1", "random_get", []byte{encode.I32, encode.I32}, []byte{encode.I32})
	m.Func(none, none, none)
	m.Func(none, none, slices.Repeat(w, 200))
	m.Func(none, none, none, 0x01)
	m.Func(none, none, none, 0x01, 0x01)
	m.Table(5, 5)
	m.Element(0, encode.Const32(0), 0x0b, encode.List([][]byte{{7}, {9}, {10}, {7}, {1}}))
	m.Memory(512, 512)
	m.Global(encode.I32, true, encode.Const32(0))
	m.Global(encode.I64, true, encode.Const64(0))
	m.Global(encode.I64, true, encode.Const64(0))
	if c.data > 0 {
		m.PassiveData(strings.Repeat("x", c.data))
	}
	const lines = 512 << 16 >> 6
	initialize := "unused"
	if c.chain {
		initialize = "_initialize"
	}
	m.Export(initialize, encode.Function, m.Func(none, none, []byte{encode.I32},
		0x03, 0x40, encode.Get(0), encode.Const32(6), 0x74,
		encode.Get(0), encode.Const32(1664525), 0x6c, encode.Const32(1013904223), 0x6a, encode.Const32(lines-1), 0x71, encode.Const32(6), 0x74,
		0x36, 2, 0, encode.Get(0), encode.Const32(1), 0x6a, 0x22, 0, encode.Const32(lines), 0x48, 0x0d, 0, 0x0b))
	locals := []byte{
		encode.I32, encode.I32, encode.I64, encode.I64, 0x7d, 0x7d, encode.F64, encode.F64, encode.V128, encode.V128, encode.I64,
	}
	if c.times == 16 {
		locals = append(locals, slices.Repeat(w, manyLocals)...)
	}
	times := c.times
	if times == 0 {
		times = longBody / max(len(c.code), 1)
	}
	m.Export("f", encode.Function, m.Func(none, []byte{encode.I32}, locals,
		encode.Const64(64<<10), encode.Call(alloc), encode.GlobalSet(1), encode.Const64(64), encode.Call(alloc), encode.GlobalSet(2),
		encode.Const32(640), encode.Set(word), encode.Const32(640), encode.Set(otherWord), encode.Const64(7), encode.Set(otherLong),
		0x43, []byte{1, 0, 0, 0}, encode.Set(float), 0x43, []byte{0, 0, 0x40, 0x3f}, encode.Set(otherFloat),
		0x44, bytesOf(tiny), encode.Set(double), 0x44, bytesOf(0.75), encode.Set(otherDouble),
		0x44, bytesOf(tiny), 0xfd, 0x14, encode.Set(wide), 0x44, bytesOf(0.75), 0xfd, 0x14, encode.Set(otherWide),
		0x03, 0x40, slices.Repeat(c.code, times), 0x0c, 0, 0x0b, encode.Get(word)))
	return m.Bytes()
}

// threadTime is the processor's time of this thread.
func threadTime(tb testing.TB) time.Duration {
	tb.Helper()
	var now unix.Timespec
	require.NoError(tb, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now))
	return time.Duration(now.Nano())
}

// calibration measures a class again and again.
type calibration struct {
	module *engine.Module
	// best is the least time of a million ticks: what else the machine does only adds to it.
	best time.Duration
}

func (c class) calibrate(tb testing.TB, ticks uint64) *calibration {
	tb.Helper()
	limits := engine.Limits{Fuel: ticks, Time: time.Hour, Instances: 1}
	return &calibration{module: compile(tb, c.guest(), limits), best: math.MaxInt64}
}

func (c *calibration) measure(tb testing.TB, ticks uint64) {
	tb.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := threadTime(tb)
	_, stats, err := c.module.Call(tb.Context(), "f", nil)
	used := threadTime(tb) - began
	require.ErrorIs(tb, err, engine.Timeout)
	require.Equal(tb, ticks, stats.Ticks)
	c.best = min(c.best, time.Duration(float64(used)*1e6/float64(ticks)))
}

// sliceTicks is how much fuel a guest gets at once.
const sliceTicks = 192

// A tick takes about as long whatever it pays for: no class of instructions takes three
// times the mean. It prints the microseconds of a million ticks of each.
func TestLongATickOfEachClassTakesAboutAsLong(t *testing.T) {
	const ticks, rounds = 30_000, 60
	calibrations := map[string]*calibration{}
	var names []string
	for name, c := range classes() {
		calibrations[name] = c.calibrate(t, ticks)
		names = append(names, name)
	}
	var mean time.Duration
	for round := range rounds {
		mean = 0
		for _, name := range names {
			calibrations[name].measure(t, ticks)
			mean += calibrations[name].best / time.Duration(len(names))
		}
		sort.Slice(names, func(a, b int) bool { return calibrations[names[a]].best > calibrations[names[b]].best })
		if round >= 2 && calibrations[names[0]].best <= 3*mean {
			break // the rest would only be more exact
		}
	}
	for _, name := range names {
		best := calibrations[name].best
		t.Logf("%-28s %8d µs per million ticks, %.2f of the mean", name, best.Microseconds(), float64(best)/float64(mean))
	}
	t.Logf("%-28s %8d µs per million ticks", "mean", mean.Microseconds())
	assert.LessOrEqual(t, calibrations[names[0]].best, 3*mean, names[0])
}

// A slice of fuel takes at most 2 ms, which is how long the garbage collector waits: for each class.
// Time is the processor's, and the least of some runs, as what else the machine does adds to it.
func TestLongASliceOfFuelTakesAtMost2ms(t *testing.T) {
	const slices, atMost = 4, 2 * time.Millisecond
	for name, c := range classes() {
		t.Run(name, func(t *testing.T) {
			few := c.calibrate(t, slices*sliceTicks)
			var slice time.Duration
			// A page that is written for the first time takes a fault, longer on a busy machine.
			for range 100 {
				few.measure(t, slices*sliceTicks)
				if slice = few.best * sliceTicks / 1e6; slice <= atMost {
					break
				}
			}
			assert.LessOrEqual(t, slice, atMost)
		})
	}
}

// With the default limits a call takes at most 50 ms, for each class and however much fuel there is:
// it ends at the first look at the clock after 46 ms. Time is measured as above.
func TestLongACallTakesAtMost50ms(t *testing.T) {
	const limit, atMost = 46 * time.Millisecond, 50 * time.Millisecond
	for name, c := range classes() {
		t.Run(name, func(t *testing.T) {
			// Unlike compile, with the default time.
			m, err := newEngine(t, engine.Options{}).Compile(t.Context(), "guest", meter(t, c.guest()), engine.Limits{Fuel: 1 << 50, Instances: 1})
			require.NoError(t, err)
			best := time.Hour
			for range 20 {
				if best = min(best, ended(t, m)); best <= atMost {
					break
				}
			}
			assert.LessOrEqual(t, best, atMost)
			assert.GreaterOrEqual(t, best, limit)
			require.NoError(t, m.Close(t.Context()))
		})
	}
}

// ended calls a module that is stopped for its time, and returns the processor's.
func ended(tb testing.TB, m *engine.Module) time.Duration {
	tb.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := threadTime(tb)
	_, _, err := m.Call(tb.Context(), "f", nil)
	used := threadTime(tb) - began
	require.ErrorIs(tb, err, engine.Timeout)
	require.ErrorIs(tb, err, engine.ErrCallTime)
	require.ErrorContains(tb, err, "it ran for more than 46ms and was stopped")
	return used
}

// mixed is a module that repeats some classes in a random order.
func mixed(seed uint64) class {
	random := rand.New(rand.NewPCG(seed, 1))
	all := classes()
	names := slices.Sorted(maps.Keys(all))
	var mix class
	for range 1 + random.IntN(6) {
		c := all[names[random.IntN(len(names))]]
		if c.times == 16 {
			continue // it needs local variables of its own
		}
		code := c.code
		if c.chain {
			// The other classes leave any number in the local variable and in memory.
			code = encode.Code(encode.Get(word), encode.Const32(0x1ffffc0), 0x71, encode.Set(word), code)
		}
		code = slices.Repeat(code, 1+random.IntN(40))
		if random.IntN(2) == 0 {
			code = encode.Code(0x02, 0x40, 0x03, 0x40, code, encode.Get(word), encode.Const32(1<<10), 0x71, 0x0d, 0, 0x0b, 0x0b)
		}
		mix.code = append(mix.code, code...)
		mix.chain, mix.data = mix.chain || c.chain, max(mix.data, c.data)
	}
	mix.times = 1 + random.IntN(4)
	return mix
}

// withinBudget runs a module of random classes until its fuel is used up: it takes at most
// five times what its ticks take on average.
func withinBudget(tb testing.TB, seed uint64, mean time.Duration) {
	tb.Helper()
	const ticks = 20_000
	c := mixed(seed).calibrate(tb, ticks)
	for range 8 {
		c.measure(tb, ticks)
		if c.best <= 5*mean {
			break
		}
	}
	require.LessOrEqual(tb, c.best, 5*mean, "seed %d", seed)
	require.NoError(tb, c.module.Close(tb.Context()))
}

// meanTime measures what a million ticks take on average.
func meanTime(tb testing.TB) time.Duration {
	tb.Helper()
	const ticks = 20_000
	var sum time.Duration
	all := classes()
	for _, c := range all {
		measured := c.calibrate(tb, ticks)
		for range 3 {
			measured.measure(tb, ticks)
		}
		sum += measured.best
		require.NoError(tb, measured.module.Close(tb.Context()))
	}
	return sum / time.Duration(len(all))
}

// No accepted module takes longer than five times what its budget takes on average.
func TestLongNoModuleTakesLongerThanItsBudget(t *testing.T) {
	mean := meanTime(t)
	for seed := range uint64(12) {
		withinBudget(t, seed, mean)
	}
	withinBudget(t, 214, mean) // A fuzzer found it.
}

// FuzzBudget looks for modules that take longer than their budget. It has no seeds: those of
// TestLongNoModuleTakesLongerThanItsBudget are enough where nothing is fuzzed, and what is found belongs there.
func FuzzBudget(f *testing.F) {
	var mean time.Duration
	f.Fuzz(func(t *testing.T, seed uint64) {
		if mean == 0 {
			mean = meanTime(t)
		}
		withinBudget(t, seed, mean)
	})
}
