package fuel_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/longshore-dev/longshore/host/policy/encode"
	"github.com/longshore-dev/longshore/host/policy/fuel"
	"github.com/longshore-dev/longshore/host/policy/fuel/wasmtest"
)

var testNames = fuel.Names{Fuel: "fuel", Stack: "stack", RefuelModule: "host", Refuel: "refuel", Globals: "global:", Memory: "mem", Start: "start"}

// meter rewrites a module that must be accepted.
func meter(tb testing.TB, wasm []byte) *fuel.Rewritten {
	tb.Helper()
	m, err := fuel.Parse(wasm)
	require.NoError(tb, err)
	rewritten, err := m.Meter(testNames)
	require.NoError(tb, err)
	return rewritten
}

// interpreter is the runtime for tests that compile many modules: it validates like
// the compiler does.
func interpreter(ctx context.Context) wazero.Runtime {
	return wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().WithMemoryLimitPages(64))
}

// errNoFuel ends calls without fuel.
var errNoFuel = errors.New("out of fuel")

// look defines the host's function, which ends calls without fuel.
func look(tb testing.TB, runtime wazero.Runtime) {
	tb.Helper()
	if runtime.Module(testNames.RefuelModule) != nil {
		return
	}
	b := runtime.NewHostModuleBuilder(testNames.RefuelModule).NewFunctionBuilder()
	_, err := b.WithGoFunction(api.GoFunc(func(context.Context, []uint64) { panic(errNoFuel) }), nil, nil).
		Export(testNames.Refuel).Instantiate(tb.Context())
	require.NoError(tb, err)
}

// instantiate compiles and instantiates a module under no name.
func instantiate(tb testing.TB, runtime wazero.Runtime, wasm []byte) api.Module {
	tb.Helper()
	look(tb, runtime)
	compiled, err := runtime.CompileModule(tb.Context(), wasm)
	require.NoError(tb, err)
	m, err := runtime.InstantiateModule(tb.Context(), compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	require.NoError(tb, err)
	return m
}

func setFuel(m api.Module, ticks int64) {
	m.ExportedGlobal(testNames.Fuel).(api.MutableGlobal).Set(uint64(ticks))
	m.ExportedGlobal(testNames.Stack).(api.MutableGlobal).Set(1_000_000)
}

func left(m api.Module) int64 { return int64(m.ExportedGlobal(testNames.Fuel).Get()) }

// one is a module that exports one function, "f".
func one(params, results, locals []byte, body ...any) *encode.Module {
	m := &encode.Module{}
	m.Memory(1, 32)
	m.Export("f", encode.Function, m.Func(params, results, locals, body...))
	return m
}

var (
	i32 = []byte{encode.I32}
	nop = []byte{0x01}
)

// countdown is a loop of as many rounds as parameter 0.
var countdown = encode.Code(0x03, 0x40, encode.Get(0), encode.Const32(1), 0x6b, 0x22, 0, 0x0d, 0, 0x0b)

func TestTicks(t *testing.T) {
	const tick, part = fuel.Parts, 1536
	fill := encode.Code(encode.Const32(0), encode.Const32(7), encode.Get(0), 0xfc, 11, 0)
	grow := encode.Code(encode.Get(0), 0x40, 0, 0x1a)
	load := encode.Code(encode.Const32(0), 0x28, 2, 0, 0x1a)
	tests := map[string]struct {
		body     []byte
		argument uint64
		want     int64
	}{
		"a function entry costs a tick":               {nil, 0, tick},
		"a loop costs a tick for each iteration":      {countdown, 1000, 1001 * tick},
		"instructions as heavy as a tick cost one":    {nops(tick * part), 0, 2 * tick},
		"lighter ones are paid with the entry":        {nops(tick*part - 4), 0, tick},
		"as heavy as three ticks cost three":          {nops(3 * tick * part), 0, 4 * tick},
		"loads cost more, as memory may be far":       {repeat(load, 30), 0, tick + 30*3},
		"loads of a loop cost more in each iteration": {loop(100, repeat(load, 6)), 0, tick + 100*tick + 100*6*3},
		"loads in front of a return":                  {encode.Code(0x02, 0x40, repeat(load, 5), 0x0f, 0x0b), 0, tick + 5*3},
		"a few loads are paid with the entry":         {repeat(load, 3), 0, tick},
		"filling memory costs a part for 512 bytes":   {fill, 64 << 10, tick + 1 + 128},
		"filling much costs the same, in parts":       {encode.Code(encode.Const32(16), 0x40, 0, 0x1a, fill), 1 << 20, tick + 1 + 16*64 + 3*512 + 1 + 512},
		"filling nothing costs the instruction":       {fill, 0, tick + 1},
		"growing memory costs 64 parts a page":        {grow, 2, tick + 1 + 128},
		"what is not run is not paid":                 {encode.Code(encode.Get(0), 0x04, 0x40, nops(2*tick*part), 0x0b), 0, tick},
		"but for less than what is charged at once":   {encode.Code(encode.Get(0), 0x04, 0x40, nops(3*tick*part), 0x0b), 0, 2 * tick},
		"a skipped part passes what is due on":        {encode.Code(0x02, 0x40, nops(tick*part/2), 0x0c, 0, 0x0b, nops(tick*part/2)), 0, 2 * tick},
		"a jump is counted where the paths meet":      {encode.Code(0x02, 0x40, encode.Get(0), 0x0d, 0, nops(tick*part-60), 0x0b, nops(70)), 1, 2 * tick},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			wasm := meter(t, one(i32, nil, nil, tc.body).Bytes()).Wasm
			for _, config := range []wazero.RuntimeConfig{wazero.NewRuntimeConfig(), wazero.NewRuntimeConfigInterpreter()} {
				m := instantiate(t, wazero.NewRuntimeWithConfig(t.Context(), config), wasm)
				setFuel(m, tc.want)
				_, err := m.ExportedFunction("f").Call(t.Context(), tc.argument)
				require.NoError(t, err)
				assert.Equal(t, int64(0), left(m), "ticks left of %d", tc.want)
				setFuel(m, tc.want-1)
				_, err = m.ExportedFunction("f").Call(t.Context(), tc.argument)
				assert.ErrorIs(t, err, errNoFuel, "one tick less must not be enough")
				assert.Negative(t, left(m))
			}
		})
	}
}

// loop is code that runs n times.
func loop(n int64, code []byte) []byte {
	return encode.Code(encode.Const32(n), encode.Set(0), 0x03, 0x40, code, encode.Get(0), encode.Const32(1), 0x6b, 0x22, 0, 0x0d, 0, 0x0b)
}

// nops are instructions of a weight in all.
func nops(weight int) []byte { return repeat(nop, weight/2) }

func repeat(code []byte, n int) []byte {
	var all []byte
	for range n {
		all = append(all, code...)
	}
	return all
}

func TestEndlessCodeStops(t *testing.T) {
	m := &encode.Module{}
	m.Export("loop", encode.Function, m.Func(nil, nil, nil, 0x03, 0x40, 0x0c, 0, 0x0b))
	m.Export("recursion", encode.Function, m.Func(nil, nil, nil, encode.Call(1)))
	m.Export("mutual", encode.Function, m.Func(nil, nil, nil, encode.Call(3)))
	m.Func(nil, nil, nil, encode.Call(2))
	m.Table(1, 1)
	m.Element(0, encode.Const32(0), 0x0b, encode.List([][]byte{{4}}))
	m.Export("indirect", encode.Function, m.Func(nil, nil, nil, encode.Const32(0), 0x11, 0, 0))
	// A loop of long straight code that jumps over every place where a naive meter
	// would count.
	var long []byte
	for range 500 {
		long = encode.Code(long, 0x02, 0x40, repeat(nop, 500), 0x0c, 0, repeat(nop, 8), 0x0b)
	}
	m.Global(encode.I32, true, encode.Const32(0))
	m.Export("count", encode.Global, 0)
	count := encode.Code(encode.GlobalGet(0), encode.Const32(1), 0x6a, encode.GlobalSet(0))
	m.Export("islands", encode.Function, m.Func(nil, nil, nil, 0x03, 0x40, count, long, 0x0c, 0, 0x0b))
	g := instantiate(t, wazero.NewRuntime(t.Context()), meter(t, m.Bytes()).Wasm)
	for export, endsByFuel := range map[string]bool{"loop": true, "recursion": false, "mutual": false, "indirect": false, "islands": true} {
		setFuel(g, 1_000_000)
		_, err := g.ExportedFunction(export).Call(t.Context())
		require.Error(t, err, export)
		assert.Equal(t, endsByFuel, errors.Is(err, errNoFuel), "%s: %v", export, err)
		assert.Equal(t, !endsByFuel, strings.Contains(err.Error(), "unreachable"), "%s: the stack is used up: %v", export, err)
	}
	ran := g.ExportedGlobal("count").Get()
	assert.Positive(t, ran)
	assert.Less(t, ran, uint64(7000), "each iteration runs 250,000 instructions, which weigh some 160 parts")
}

// A function that calls others gives back at its end what it held, on whatever way it
// leaves; what it held while it ran bounds the depth of recursion.
func TestDepthIsBounded(t *testing.T) {
	m := &encode.Module{}
	m.Global(encode.I32, true, encode.Const32(0))
	m.Export("depth", encode.Global, 0)
	count := encode.Code(encode.GlobalGet(0), encode.Const32(1), 0x6a, encode.GlobalSet(0))
	// down(n) = n == 0 ? return 5 : down(n-1)
	m.Export("down", encode.Function, m.Func(i32, i32, nil, count,
		encode.Get(0), 0x45, 0x04, 0x40, encode.Const32(5), 0x0f, 0x0b,
		encode.Get(0), encode.Const32(1), 0x6b, encode.Call(0)))
	g := instantiate(t, wazero.NewRuntime(t.Context()), meter(t, m.Bytes()).Wasm)
	setFuel(g, 1_000_000)
	results, err := g.ExportedFunction("down").Call(t.Context(), 1000)
	require.NoError(t, err)
	assert.Equal(t, uint64(5), results[0])
	assert.Equal(t, int64(1_000_000-1001*fuel.Parts), left(g), "a tick for each call, nothing is kept")
	g.ExportedGlobal("depth").(api.MutableGlobal).Set(0)
	setFuel(g, 1_000_000)
	_, err = g.ExportedFunction("down").Call(t.Context(), 1<<31)
	require.ErrorContains(t, err, "unreachable")
	assert.Less(t, g.ExportedGlobal("depth").Get(), uint64(20_000))
	assert.Greater(t, g.ExportedGlobal("depth").Get(), uint64(10_000), "ordinary recursion is far below")
}

func TestNothingRunsBeforeTheHostSetsFuel(t *testing.T) {
	m := &encode.Module{}
	g := m.Global(encode.I32, true, encode.Const32(0))
	m.Export("g", encode.Global, g)
	m.Start(m.Func(nil, nil, nil, encode.Const32(7), encode.GlobalSet(0)))
	i := instantiate(t, wazero.NewRuntime(t.Context()), meter(t, m.Bytes()).Wasm)
	assert.Equal(t, uint64(0), i.ExportedGlobal("g").Get(), "the start function must not run by itself")
	_, err := i.ExportedFunction(testNames.Start).Call(t.Context())
	require.ErrorIs(t, err, errNoFuel)
	setFuel(i, 100)
	_, err = i.ExportedFunction(testNames.Start).Call(t.Context())
	require.NoError(t, err)
	assert.Equal(t, uint64(7), i.ExportedGlobal("g").Get())
}

func TestExportsForSnapshots(t *testing.T) {
	m := &encode.Module{}
	m.Global(encode.I32, false, encode.Const32(1))
	m.Global(encode.I64, true, encode.Const64(2))
	m.Global(encode.F64, true, 0x44, make([]byte, 8))
	m.HiddenMemory(1, -1)
	wasm := meter(t, m.Bytes()).Wasm
	i := instantiate(t, wazero.NewRuntime(t.Context()), wasm)
	assert.Nil(t, i.ExportedGlobal("global:0"), "immutable globals need no restoring")
	assert.Equal(t, uint64(2), i.ExportedGlobal("global:1").Get())
	assert.NotNil(t, i.ExportedGlobal("global:2"))
	assert.NotNil(t, i.ExportedMemory(testNames.Memory))
	again, err := fuel.Parse(wasm)
	require.NoError(t, err)
	_, err = again.Meter(testNames)
	assert.ErrorContains(t, err, `exports "fuel", a name that the host reserves`)
}

func TestUnrestorable(t *testing.T) {
	table := func(body ...any) []byte {
		m := &encode.Module{}
		m.Table(2, 4)
		m.Memory(1, 1)
		m.Func(nil, nil, nil, body...)
		m.Element(1, 0, encode.List([][]byte{{0}}))
		m.PassiveData("x")
		return m.Bytes()
	}
	zero := encode.Const32(0)
	global := &encode.Module{}
	global.Global(encode.V128, true, 0xfd, 12, make([]byte, 16))
	global.Global(encode.FuncRef, true, 0xd0, 0x70)
	tests := map[string]struct {
		wasm []byte
		want []string
	}{
		"nothing":                  {table(nop), nil},
		"reading a table":          {table(zero, 0x25, 0, 0x1a, 0xfc, 16, 0, 0x1a), nil},
		"table.set":                {table(zero, 0xd2, 0, 0x26, 0, zero, 0xd2, 0, 0x26, 0), []string{"table.set in function 0"}},
		"table.init and elem.drop": {table(zero, zero, zero, 0xfc, 12, 0, 0, 0xfc, 13, 0), []string{"table.init in function 0", "elem.drop in function 0"}},
		"table.copy":               {table(zero, zero, zero, 0xfc, 14, 0, 0), []string{"table.copy in function 0"}},
		"table.grow":               {table(0xd0, 0x70, zero, 0xfc, 15, 0, 0x1a), []string{"table.grow in function 0"}},
		"table.fill":               {table(zero, 0xd0, 0x70, zero, 0xfc, 17, 0), []string{"table.fill in function 0"}},
		"data.drop":                {table(0xfc, 9, 0), []string{"data.drop in function 0"}},
		"globals that do not fit":  {global.Bytes(), []string{"global 0 of type v128", "global 1 of type funcref"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			rewritten := meter(t, tc.wasm)
			assert.Equal(t, tc.want, rewritten.Unrestorable)
			runtime := interpreter(t.Context())
			_, err := runtime.CompileModule(t.Context(), tc.wasm)
			require.NoError(t, err, "the test's module")
			_, err = runtime.CompileModule(t.Context(), rewritten.Wasm)
			require.NoError(t, err, "the rewritten module")
		})
	}
}

// raw is a module of one section.
func raw(id byte, content ...any) []byte {
	return encode.Code("\x00asm\x01\x00\x00\x00", encode.Section(id, encode.Code(content...)))
}

// body is a module of one function without parameters.
func body(code ...any) []byte { return one(nil, nil, nil, code...).Bytes() }

// refusal is a module, and a part of the error that refuses it.
type refusal struct {
	wasm []byte
	want string
}

func refuse(t *testing.T, tests map[string]refusal) {
	t.Helper()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var rewritten *fuel.Rewritten
			m, err := fuel.Parse(tc.wasm)
			if err == nil {
				rewritten, err = m.Meter(testNames)
			}
			require.ErrorContains(t, err, tc.want)
			assert.Nil(t, rewritten)
		})
	}
}

func TestDamagedModulesAreRefused(t *testing.T) {
	valid := one(i32, nil, nil, countdown).Bytes()
	rawBody := func(b ...any) []byte {
		m := &encode.Module{}
		m.RawFunc(nil, nil, encode.Code(b...))
		return m.Bytes()
	}
	huge := encode.Uleb(math.MaxUint32)
	many := &encode.Module{}
	for range 20 {
		many.Func(nil, nil, nil, repeat([]byte{0x02, 0x40, 0x0b}, 9_999))
	}
	slow := many.Bytes()
	refuse(t, map[string]refusal{
		"nothing":                               {nil, "not a WebAssembly module"},
		"text":                                  {[]byte("#!/bin/sh\nexit 1\n"), "not a WebAssembly module"},
		"a component":                           {[]byte("\x00asm\x0d\x00\x01\x00"), "wasip1, not wasip2"},
		"another version":                       {[]byte("\x00asm\x02\x00\x00\x00"), "version 1"},
		"cut in half":                           {valid[:len(valid)/2], "ends too early"},
		"a section that lies about its size":    {raw(1, huge), "ends too early"},
		"a huge list of types":                  {raw(1, huge, 0), "cannot fit"},
		"a huge list of functions":              {raw(3, huge), "cannot fit"},
		"a huge list of imports":                {raw(2, huge), "cannot fit"},
		"a huge list of globals":                {raw(6, huge), "cannot fit"},
		"a huge list of exports":                {raw(7, huge), "cannot fit"},
		"a huge list of element segments":       {raw(9, huge), "cannot fit"},
		"a huge list of elements":               {raw(9, 1, 1, 0, huge), "cannot fit"},
		"a huge list of data segments":          {raw(11, huge), "cannot fit"},
		"a huge data segment":                   {raw(11, 1, 1, huge), "ends too early"},
		"a huge table":                          {raw(4, 1, 0x70, 0, huge), "size of 4294967295"},
		"a huge memory":                         {raw(5, 1, 0, encode.Uleb(65537)), "size of 65537"},
		"too many local variables":              {rawBody(1, huge, encode.I32, 0x0b), "4294967295 local variables"},
		"sections in the wrong order":           {append(raw(3, 0), encode.Section(1, []byte{0})...), "out of order or repeated"},
		"a section twice":                       {append(raw(1, 0), encode.Section(1, []byte{0})...), "out of order or repeated"},
		"an unknown section":                    {raw(42, 0), "section 42 is unknown"},
		"bytes behind a section's content":      {raw(3, 0, 0), "after its content"},
		"code without declaration":              {raw(10, 1, 2, 0, 0x0b), "declares 0 functions and has the code of 1"},
		"a function of unknown type":            {append(raw(3, 1, 7), encode.Section(10, []byte{1, 2, 0, 0x0b})...), "unknown type 7"},
		"an export of an unknown function":      {raw(7, 1, 1, "f", 0, 9), "unknown function 9"},
		"an unknown start function":             {raw(8, 3), "start function 3 is unknown"},
		"a body that does not end":              {rawBody(0, 0x01), "does not end"},
		"a body that goes on":                   {rawBody(0, 0x0b, 0x01), "after the end"},
		"an else without if":                    {body(0x05), "else has no if"},
		"a branch out of the function":          {body(0x0c, 9), "leaves 10 blocks"},
		"blocks nested too deep":                {body(repeat([]byte{0x02, 0x40}, 4_100), repeat([]byte{0x0b}, 4_100)), "nested more than"},
		"loops nested too deep":                 {body(repeat([]byte{0x03, 0x40}, 300), repeat([]byte{0x0b}, 300)), "or loops more than 256"},
		"a function that is too long":           {body(repeat(nop, 300<<10)), "too long to compile: split it up"},
		"a function with too many branches":     {body(repeat([]byte{0x02, 0x40, 0x0b}, 10_001)), "10001 branches would take too long to compile"},
		"many functions that compile slowly":    {slow, "too long to compile"},
		"many large tables":                     {raw(4, 3, 0x70, 0, encode.Uleb(1<<17), 0x70, 0, encode.Uleb(1<<17), 0x70, 0, 1), "more than 262144 items"},
		"many globals":                          {raw(6, encode.Uleb(10_001), repeat([]byte{0x7f, 0, 0x41, 0, 0x0b}, 10_001)), "a list has 10001 items, more than 10000"},
		"a number that is too long":             {body(0x41, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80), "too long"},
		"a name that is not UTF-8":              {raw(7, 1, 1, 0xff, 0, 0), "not UTF-8"},
		"an unknown SIMD instruction":           {body(0xfd, 0x9a, 0x01), "unknown"},
		"a SIMD number with a useless byte":     {body(0xfd, 0x8c, 0x00), "canonically"},
		"an unknown instruction":                {body(0xf0), "instruction 0xf0 is unknown"},
		"an unknown instruction behind 0xfc":    {body(0xfc, 18), "0xfc 18 is unknown"},
		"an instruction in a constant":          {raw(6, 1, 0x7f, 0, 0x01, 0x01, 0x0b), "constant expression"},
		"a global that is mutable in part":      {raw(6, 1, 0x7f, 2, 0x41, 0, 0x0b), "mutability 0x2"},
		"an element segment of an unknown kind": {raw(9, 1, 8, 0), "unknown flags"},
	})
}

func TestProposalsAreRefusedByName(t *testing.T) {
	refuse(t, map[string]refusal{
		"a tail call":                        {body(0x12, 0), "uses tail calls"},
		"an indirect tail call":              {body(0x13, 0, 0), "uses tail calls"},
		"exceptions: try_table":              {body(0x1f, 0x40, 0), "uses exception handling"},
		"exceptions: throw":                  {body(0x08, 0), "uses exception handling"},
		"exceptions: the tag section":        {raw(13, 0), "uses exception handling"},
		"exceptions: an imported tag":        {raw(2, 1, 1, "a", 1, "b", 4, 0, 0), "uses exception handling"},
		"threads: an atomic instruction":     {body(0xfe, 0x03, 0), "uses threads"},
		"threads: shared memory":             {raw(5, 1, 3, 1, 1), "uses threads"},
		"memory64":                           {raw(5, 1, 4, 1), "uses memory64"},
		"several memories":                   {raw(5, 2, 0, 1, 0, 1), "uses multi-memory"},
		"typed function references":          {body(0x14, 0), "uses typed function references"},
		"typed function references: a type":  {raw(1, 1, 0x60, 1, 0x64, 0), "uses typed function references"},
		"typed function references: a block": {body(0x02, 0x63, 0x0b), "uses typed function references"},
		"garbage collection":                 {body(0xfb, 0), "uses garbage collection"},
		"garbage collection: a type":         {raw(1, 1, 0x4e, 0, 0), "uses garbage collection"},
		"relaxed SIMD":                       {body(0xfd, 0x80, 0x02), "uses relaxed SIMD"},
		"extended constants":                 {raw(6, 1, 0x7f, 0, 0x41, 0, 0x41, 0, 0x6a, 0x0b), "uses extended constant expressions"},
	})
}

func TestNames(t *testing.T) {
	m, err := fuel.Parse((&encode.Module{}).Bytes())
	require.NoError(t, err)
	_, err = m.Meter(fuel.Names{Fuel: "fuel"})
	require.ErrorContains(t, err, "not set")
	for _, taken := range []string{"fuel", "stack", "mem", "start", "global:0", "global:x"} {
		guest := &encode.Module{}
		guest.Export(taken, encode.Function, guest.Func(nil, nil, nil))
		m, err := fuel.Parse(guest.Bytes())
		require.NoError(t, err)
		_, err = m.Meter(testNames)
		assert.ErrorContains(t, err, fmt.Sprintf("exports %q", taken))
	}
}

func TestParseTellsWhatAModuleIs(t *testing.T) {
	guest := one(i32, i32, nil, encode.Get(0))
	m, err := fuel.Parse(guest.Bytes())
	require.NoError(t, err)
	assert.Equal(t, &fuel.Limits{Min: 1, Max: 32, HasMax: true}, m.Memory)
	require.Len(t, m.Exports, 2)
	assert.Equal(t, "f", m.Exports[1].Name)
	assert.Equal(t, fuel.Signature{Params: []fuel.ValueType{fuel.I32}, Results: []fuel.ValueType{fuel.I32}}, m.Exports[1].Signature)

	guest = &encode.Module{}
	guest.Import("a", "f", i32, nil)
	guest.ImportRaw("a", "t", encode.Table, []byte{0x70, 0, 1})
	guest.ImportRaw("a", "m", encode.Memory, []byte{0, 1})
	guest.ImportRaw("a", "g", encode.Global, []byte{0x7e, 1})
	m, err = fuel.Parse(guest.Bytes())
	require.NoError(t, err)
	var kinds []string
	for _, i := range m.Imports {
		kinds = append(kinds, i.Kind.String()+" "+i.Module+"."+i.Name)
	}
	assert.Equal(t, "func a.f, table a.t, memory a.m, global a.g", strings.Join(kinds, ", "))
	assert.Equal(t, []fuel.ValueType{fuel.I32}, m.Imports[0].Signature.Params)
}

func TestGoGuest(t *testing.T) {
	wasm := wasmtest.BuildGo(t, "testdata/guest")
	rewritten := meter(t, wasm)
	assert.Empty(t, rewritten.Unrestorable)
	module, err := fuel.Parse(wasm)
	require.NoError(t, err)
	exposed, err := module.Expose(testNames)
	require.NoError(t, err)
	assert.Less(t, float64(len(rewritten.Wasm)), 1.25*float64(len(exposed.Wasm)), "metering must not blow a module up")
	original := goGuest(t, wasm)
	metered := goGuest(t, rewritten.Wasm)
	setFuel(metered, math.MaxInt32)
	for _, m := range []api.Module{original, metered} {
		_, err := m.ExportedFunction("_initialize").Call(t.Context())
		require.NoError(t, err)
	}
	for n := range uint64(20) {
		want, err := original.ExportedFunction("work").Call(t.Context(), n)
		require.NoError(t, err)
		setFuel(metered, 10_000_000)
		got, err := metered.ExportedFunction("work").Call(t.Context(), n)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	a, _ := original.Memory().Read(0, original.Memory().Size())
	b, _ := metered.Memory().Read(0, metered.Memory().Size())
	assert.Equal(t, a, b, "the memories after the same calls")
}
