package fuel_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/longshore-dev/longshore/host/policy/encode"
	"github.com/longshore-dev/longshore/host/policy/fuel"
)

// full has one item of each kind and a function with this body. Each index 1 is the first
// that does not exist, or exists only after rewriting.
func full(locals []byte, body ...any) *encode.Module {
	m := &encode.Module{}
	m.Table(2, 4)
	m.Memory(1, 1)
	m.Global(encode.I64, true, encode.Const64(5))
	m.Func(nil, nil, locals, body...)
	m.Element(1, 0, encode.List([][]byte{{0}}))
	m.PassiveData("x")
	return m
}

// Before rewriting, these indices name nothing. After it some of them name the fuel, a
// local variable or a block of the meter's.
func TestIndicesOfNothingAreRefused(t *testing.T) {
	zero, one64 := encode.Const32(0), encode.Const64(1<<40)
	fn := func(body ...any) []byte { return full(i32, body...).Bytes() }
	calling := func(body ...any) []byte { return fn(encode.Code(body...), encode.Call(0)) }
	exporting := func(kind byte, index uint32) []byte {
		m := full(nil)
		m.Export("x", kind, index)
		return m.Bytes()
	}
	global := func(initial ...any) []byte {
		m := full(nil)
		m.Global(encode.I64, true, initial...)
		return m.Bytes()
	}
	element := func(segment ...any) []byte {
		m := full(nil)
		m.Element(segment...)
		return m.Bytes()
	}
	undeclared := &encode.Module{}
	undeclared.Start(undeclared.Func(nil, nil, nil, 0xd2, 0, 0x1a))
	data := &encode.Module{}
	data.Memory(1, 1)
	data.Func(nil, nil, nil, 0xfc, 9, 0)
	data.Data(0, "x")
	var types []byte
	types = append(types, encode.Uleb(127)...)
	types = append(types, repeat([]byte{0x60, 0, 0}, 127)...)
	body := encode.Code(0, 0xd0, 0x7f, 0x1a, 0x0b)
	nullType := encode.Code("\x00asm\x01\x00\x00\x00", encode.Section(1, types), encode.Section(3, []byte{1, 0}), encode.Section(10, encode.Code(1, encode.Sized(body))))
	noMemory := &encode.Module{}
	noMemory.Func(nil, nil, nil, zero, 0x28, 2, 0, 0x1a)
	refuse(t, map[string]refusal{
		"writing the fuel":                        {fn(one64, encode.GlobalSet(1)), "global 1"},
		"reading the fuel":                        {fn(encode.GlobalGet(1), 0x1a), "global 1"},
		"the fuel, encoded in five bytes":         {fn(one64, 0x24, 0x81, 0x80, 0x80, 0x80, 0x00), "global 1"},
		"the fuel in unreachable code":            {fn(0x00, one64, encode.GlobalSet(1)), "global 1"},
		"the fuel as a global's initial value":    {global(encode.GlobalGet(2)), "global 2"},
		"the fuel as a segment's offset":          {element(0, encode.GlobalGet(1), 0x0b, encode.List([][]byte{{0}})), "global 1"},
		"the fuel in an element segment":          {element(5, 0x70, encode.List([][]byte{encode.Code(encode.GlobalGet(1), 0x0b)})), "global 1"},
		"exporting the fuel":                      {exporting(encode.Global, 1), "global 1"},
		"reading the temporary local":             {fn(encode.Get(1), 0x1a), "local variable 1"},
		"writing the temporary local":             {fn(zero, zero, zero, 0xfc, 11, 0, zero, encode.Set(1)), "local variable 1"},
		"teeing the temporary local":              {fn(zero, 0x22, 1, 0x1a), "local variable 1"},
		"a branch past the function":              {calling(0x0c, 1), "leaves 2 blocks"},
		"a conditional branch past the function":  {calling(zero, 0x0d, 1), "leaves 2 blocks"},
		"a jump table past the function":          {calling(zero, 0x0e, 1, 0, 1), "leaves 2 blocks"},
		"a block of a type that is added":         {fn(0x02, 1, 0x0b), "type 1"},
		"an indirect call of a type that is not":  {fn(zero, 0x11, 1, 0), "type 1"},
		"an indirect call through no table":       {fn(zero, 0x11, 0, 1), "table 1"},
		"a call of no function":                   {fn(encode.Call(1)), "function 1"},
		"a reference to no function":              {fn(0xd2, 1, 0x1a), "function 1"},
		"a reference that was not declared":       {undeclared.Bytes(), "function 0 is not declared"},
		"a null of an indexed type":               {nullType, "ref.null"},
		"reading no table":                        {fn(zero, 0x25, 1, 0x1a), "table 1"},
		"the size of no table":                    {fn(0xfc, 16, 1, 0x1a), "table 1"},
		"filling no table":                        {fn(zero, 0xd0, 0x70, zero, 0xfc, 17, 1), "table 1"},
		"growing no table":                        {fn(0xd0, 0x70, zero, 0xfc, 15, 1, 0x1a), "table 1"},
		"copying between no tables":               {fn(zero, zero, zero, 0xfc, 14, 0, 1), "table 1"},
		"a table from no segment":                 {fn(zero, zero, zero, 0xfc, 12, 1, 0), "element segment 1"},
		"dropping no element segment":             {fn(0xfc, 13, 1), "element segment 1"},
		"memory from no segment":                  {fn(zero, zero, zero, 0xfc, 8, 1, 0), "data segment 1"},
		"dropping no data segment":                {fn(0xfc, 9, 1), "data segment 1"},
		"dropping a segment that was not counted": {data.Bytes(), "data segment 0"},
		"another memory":                          {fn(0x3f, 1, 0x1a), "memory 1"},
		"a load without memory":                   {noMemory.Bytes(), "memory 0"},
		"exporting no table":                      {exporting(encode.Table, 1), "table 1"},
		"exporting no memory":                     {exporting(encode.Memory, 1), "memory 1"},
		"an element that is not a function":       {element(1, 0, encode.List([][]byte{{1}})), "function 1"},
		"an element for no table":                 {element(2, 1, zero, 0x0b, 0, encode.List([][]byte{{0}})), "table 1"},
	})
}

// Index 0 in the place of index 1 is valid in each of these, so the modules above are refused
// for their index.
func TestIndicesOfItemsAreAccepted(t *testing.T) {
	runtime := interpreter(t.Context())
	for name, code := range map[string][]byte{
		"global.get": encode.Code(encode.GlobalGet(0), 0x1a), "local.get": encode.Code(encode.Get(0), 0x1a), "br": {0x0c, 0},
		"block type": {0x02, 0, 0x0b}, "call": encode.Call(0), "ref.func": {0xd2, 0, 0x1a}, "table.size": {0xfc, 16, 0, 0x1a},
		"elem.drop": {0xfc, 13, 0}, "data.drop": {0xfc, 9, 0}, "memory.size": {0x3f, 0, 0x1a}, "ref.null": {0xd0, 0x70, 0x1a},
	} {
		wasm := full(i32, code).Bytes()
		_, err := runtime.CompileModule(t.Context(), wasm)
		require.NoError(t, err, name)
		_, err = rewrite(wasm)
		require.NoError(t, err, name)
	}
}

// validity reports whether a module is valid, and whether metering makes it a valid one. It gives
// wazero the bytes that a component gives it.
func validity(t *testing.T, runtime wazero.Runtime, wasm []byte) (before, after bool) {
	t.Helper()
	plain := wasm
	if parsed, err := fuel.Parse(wasm); err == nil {
		plain = parsed.Plain()
	}
	compiled, err := runtime.CompileModule(t.Context(), plain)
	if before = err == nil; before {
		require.NoError(t, compiled.Close(t.Context()))
	}
	rewritten, err := rewrite(wasm)
	if err != nil {
		return before, false
	}
	compiled, err = runtime.CompileModule(t.Context(), rewritten.Wasm)
	if after = err == nil; after {
		require.NoError(t, compiled.Close(t.Context()))
	}
	return before, after
}

// mutated damages the code of a module: it changes single bytes, most of them to small
// numbers, which indices are.
func mutated(random *rand.Rand, wasm []byte) []byte {
	damaged := append([]byte(nil), wasm...)
	for range 1 + random.IntN(3) {
		value := byte(random.IntN(24))
		if random.IntN(3) == 0 {
			value = byte(random.Uint32())
		}
		damaged[8+random.IntN(len(damaged)-8)] = value
	}
	return damaged
}

func TestAcceptedMeansValidBeforeRewriting(t *testing.T) {
	runtime := interpreter(t.Context())
	random := rand.New(rand.NewPCG(8, 1))
	rounds := 6000
	if testing.Short() {
		rounds = 600
	}
	counts := map[string]int{}
	for round := range rounds {
		wasm := generated(uint64(round % 40))
		if round%3 == 0 {
			wasm = full(i32, encode.Const64(1), encode.GlobalSet(0), encode.Get(0), 0x1a, 0x02, 0, 0x0b, encode.Const32(0), 0x0d, 0, encode.Call(0), 0xd2, 0, 0x1a).Bytes()
		}
		damaged := mutated(random, wasm)
		before, after := validity(t, runtime, damaged)
		if !before {
			require.False(t, after, "an invalid module became valid: % x", damaged)
		}
		counts[fmt.Sprint(before, after)]++
	}
	assert.Greater(t, counts["false false"], rounds/4, "the test itself must make invalid modules")
	assert.Greater(t, counts["true true"], rounds/20, "and valid ones")
	// Valid modules are refused for the bounds of the rewriting only.
	assert.Less(t, counts["true false"], rounds/50)
}

// The fuel never grows while a module runs, whatever it does: after each call there is less
// than before. The stack is as it was, if the call returned.
func TestFuelNeverGrows(t *testing.T) {
	runtime := interpreter(t.Context())
	look(t, runtime)
	random := rand.New(rand.NewPCG(8, 2))
	rounds, ran := 1500, 0
	if testing.Short() {
		rounds = 150
	}
	for round := range rounds {
		damaged := mutated(random, generated(uint64(round%40)))
		rewritten, err := rewrite(damaged)
		if err != nil {
			continue
		}
		compiled, err := runtime.CompileModule(t.Context(), rewritten.Wasm)
		if err != nil {
			continue
		}
		m, err := runtime.InstantiateModule(t.Context(), compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions())
		if err != nil {
			continue
		}
		fuelDeclines(t, m, damaged)
		require.NoError(t, m.Close(t.Context()))
		require.NoError(t, compiled.Close(t.Context()))
		ran++
	}
	assert.Greater(t, ran, rounds/30)
}

// FuzzFuel runs damaged modules: their fuel never grows.
func FuzzFuel(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(generated(seed))
	}
	f.Fuzz(func(t *testing.T, wasm []byte) {
		rewritten, err := rewrite(wasm)
		if err != nil {
			return
		}
		runtime := interpreter(t.Context())
		defer runtime.Close(t.Context())
		look(t, runtime)
		compiled, err := runtime.CompileModule(t.Context(), rewritten.Wasm)
		if err != nil {
			return
		}
		m, err := runtime.InstantiateModule(t.Context(), compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions())
		if err != nil {
			return
		}
		fuelDeclines(t, m, wasm)
	})
}

// fuelDeclines calls the function "f" with smaller and smaller budgets.
func fuelDeclines(t *testing.T, m api.Module, wasm []byte) {
	t.Helper()
	f := m.ExportedFunction("f")
	if f == nil || len(f.Definition().ParamTypes()) != 1 {
		return
	}
	const budget = 20_000
	for argument := range uint64(2) {
		for _, ticks := range []int64{budget, budget / 16, 64, 1, 0} {
			setFuel(m, ticks)
			_, err := f.Call(t.Context(), argument)
			require.Less(t, left(m), ticks, "% x", wasm)
			if err == nil {
				require.GreaterOrEqual(t, left(m), int64(0), "% x", wasm)
				require.Equal(t, uint64(1_000_000), m.ExportedGlobal(testNames.Stack).Get(), "% x", wasm)
			}
		}
	}
}
