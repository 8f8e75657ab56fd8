package fuel_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/longshore-dev/longshore/host/policy/encode"
	"github.com/longshore-dev/longshore/host/policy/fuel"
	"github.com/longshore-dev/longshore/host/policy/fuel/wasmtest"
)

// goGuest instantiates a Go library without running its initialization.
func goGuest(t *testing.T, wasm []byte) api.Module {
	t.Helper()
	runtime := wazero.NewRuntime(t.Context())
	t.Cleanup(func() { assert.NoError(t, runtime.Close(t.Context())) })
	wasi_snapshot_preview1.MustInstantiate(t.Context(), runtime)
	return instantiate(t, runtime, wasm)
}

// generator makes valid functions of random structure. Their loops end, since each
// counts a local of its own down.
type generator struct {
	random *rand.Rand
	// labels are the kinds of the open blocks, true for loops.
	labels []bool
	depth  int
	loops  uint64
}

const (
	scratch    = 4 // locals 0..3 hold numbers, the ones behind count loops
	maxCounter = 8
)

func (g *generator) local() uint64 { return g.random.Uint64N(scratch) }

// number writes code that leaves an i32.
func (g *generator) number() []byte {
	switch g.random.IntN(6) {
	case 0:
		return encode.Const32(g.random.Int64N(1<<16) - 1<<15)
	case 1:
		return encode.Code(g.number2(), byte(0x6a+g.random.IntN(3)))
	case 2: // a division that cannot trap
		return encode.Code(encode.Get(g.local()), encode.Const32(1+g.random.Int64N(9)), 0x6e)
	case 3:
		return encode.Code(g.address(), 0x28, 2, 0)
	case 4:
		return encode.Code(g.address(), 0x2d, 0, 0)
	default:
		return encode.Get(g.local())
	}
}

func (g *generator) number2() []byte {
	return encode.Code(encode.Get(g.local()), encode.Get(g.local()))
}

// address writes code that leaves an address inside the memory.
func (g *generator) address() []byte {
	return encode.Code(encode.Get(g.local()), encode.Const32(0xfff8), 0x71)
}

func (g *generator) statements() []byte {
	var code []byte
	for range 1 + g.random.IntN(5) {
		code = append(code, g.statement()...)
	}
	return code
}

func (g *generator) statement() []byte {
	kind := g.random.IntN(14)
	if g.depth >= 5 && kind < 4 {
		kind += 4
	}
	switch kind {
	case 0:
		return encode.Code(0x02, 0x40, g.nested(false), 0x0b)
	case 1:
		return encode.Code(g.number(), 0x04, 0x40, g.nested(false), 0x05, g.nested(false), 0x0b)
	case 2:
		return encode.Code(g.number(), 0x04, 0x40, g.nested(false), 0x0b)
	case 3:
		return g.loop()
	case 4:
		return encode.Code(g.address(), g.number(), 0x36, 2, 0)
	case 5:
		if target, ok := g.target(); ok {
			return encode.Code(g.number(), 0x0d, target)
		}
	case 6:
		if a, ok := g.target(); ok {
			b, _ := g.target()
			return encode.Code(0x02, 0x40, g.number(), 0x0e, 2, a+1, 0, b+1, 0x0b)
		}
	case 7: // memory.fill, memory.copy
		length := encode.Const32(g.random.Int64N(200))
		if g.random.IntN(2) == 0 {
			return encode.Code(encode.Const32(512), g.number(), length, 0xfc, 11, 0)
		}
		return encode.Code(encode.Const32(1024), encode.Const32(900), length, 0xfc, 10, 0, 0)
	case 8:
		return encode.Code(g.number(), encode.GlobalSet(0))
	case 9:
		return encode.Code(repeat(nop, g.random.IntN(100)))
	case 10:
		return encode.Code(g.number(), encode.Call(0), encode.Set(g.local()))
	case 11: // a return from somewhere inside
		return encode.Code(g.number(), encode.Const32(7), 0x71, 0x45, 0x04, 0x40, g.number(), 0x0f, 0x0b)
	case 12: // a recursive function with two results
		return encode.Code(g.number(), encode.Const32(15), 0x71, encode.Call(1), encode.Set(g.local()), encode.Set(g.local()))
	}
	return encode.Code(g.number(), encode.Set(g.local()))
}

func (g *generator) nested(loop bool) []byte {
	g.labels = append(g.labels, loop)
	g.depth++
	code := g.statements()
	g.depth--
	g.labels = g.labels[:len(g.labels)-1]
	return code
}

// target picks an open block that is not a loop, by its distance.
func (g *generator) target() (byte, bool) {
	var found []byte
	for i, loop := range g.labels {
		if !loop {
			found = append(found, byte(len(g.labels)-1-i))
		}
	}
	if len(found) == 0 {
		return 0, false
	}
	return found[g.random.IntN(len(found))], true
}

func (g *generator) loop() []byte {
	if g.loops == maxCounter {
		return nil
	}
	counter := scratch + g.loops
	g.loops++
	return encode.Code(encode.Const32(1+g.random.Int64N(6)), encode.Set(counter),
		0x03, 0x40, g.nested(true), encode.Get(counter), encode.Const32(1), 0x6b, 0x22, encode.Uleb(counter), 0x0d, 0, 0x0b)
}

// generated is a module with a random function "f" of one parameter.
func generated(seed uint64) []byte {
	g := &generator{random: rand.New(rand.NewPCG(seed, 1))}
	m := &encode.Module{}
	m.Memory(1, 1)
	m.Global(encode.I32, true, encode.Const32(0))
	m.Export("g", encode.Global, 0)
	two := encode.Code(encode.Get(0), encode.Const32(2), 0x6c)
	m.Func(i32, i32, nil, two)
	// Counts its parameter down to zero, adding up on the way back.
	m.Func(i32, []byte{encode.I32, encode.I32}, nil,
		encode.Get(0), 0x45, 0x04, 0x40, encode.Const32(1), encode.Const32(2), 0x0f, 0x0b,
		encode.Get(0), encode.Const32(1), 0x6b, encode.Call(1), encode.Get(0), 0x6a)
	locals := make([]byte, scratch+maxCounter)
	for i := range locals {
		locals[i] = encode.I32
	}
	m.Export("f", encode.Function, m.Func(i32, i32, locals[1:], g.statements(), g.statements(), g.number()))
	return m.Bytes()
}

// sameBehavior runs the original and the rewritten module and compares all that can
// be seen of them.
func sameBehavior(t *testing.T, runtime wazero.Runtime, wasm []byte) {
	t.Helper()
	original := instantiate(t, runtime, wasm)
	metered := instantiate(t, runtime, meter(t, wasm).Wasm)
	var spent int64
	for argument := range uint64(4) {
		want, err := original.ExportedFunction("f").Call(t.Context(), argument)
		require.NoError(t, err)
		const budget = 1 << 40
		setFuel(metered, budget)
		got, err := metered.ExportedFunction("f").Call(t.Context(), argument)
		require.NoError(t, err)
		assert.Equal(t, want, got)
		spent += budget - left(metered)
	}
	assert.Equal(t, original.ExportedGlobal("g").Get(), metered.ExportedGlobal("g").Get())
	a, _ := original.Memory().Read(0, original.Memory().Size())
	b, _ := metered.Memory().Read(0, metered.Memory().Size())
	assert.Equal(t, a, b)
	assert.Positive(t, spent)
	require.NoError(t, original.Close(t.Context()))
	require.NoError(t, metered.Close(t.Context()))
}

func TestGeneratedModulesBehaveTheSame(t *testing.T) {
	for name, config := range map[string]wazero.RuntimeConfig{"compiler": wazero.NewRuntimeConfig(), "interpreter": wazero.NewRuntimeConfigInterpreter()} {
		t.Run(name, func(t *testing.T) {
			runtime := wazero.NewRuntimeWithConfig(t.Context(), config)
			seeds := uint64(150)
			if testing.Short() {
				seeds = 15
			}
			for seed := range seeds {
				sameBehavior(t, runtime, generated(seed))
			}
		})
	}
}

// FuzzGenerated compares original and rewritten modules of random structure.
func FuzzGenerated(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) {
		runtime := interpreter(t.Context())
		defer runtime.Close(t.Context())
		sameBehavior(t, runtime, generated(seed))
	})
}

// A real module with damage somewhere: refused or rewritten, never a panic. The fuzzer
// proper is too slow for modules of this size.
func TestDamagedRealModules(t *testing.T) {
	wasm := wasmtest.BuildGo(t, "testdata/guest")
	random := rand.New(rand.NewPCG(1, 2))
	refused := 0
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	for range rounds {
		damaged := append([]byte(nil), wasm...)
		for range 1 + random.IntN(4) {
			damaged[random.IntN(len(damaged))] = byte(random.Uint32())
		}
		if random.IntN(4) == 0 {
			damaged = damaged[:random.IntN(len(damaged))]
		}
		m, err := fuel.Parse(damaged)
		if err == nil {
			_, err = m.Meter(testNames)
		}
		if err != nil {
			refused++
		}
	}
	assert.NotZero(t, refused)
}

// hugeNames is a custom section "name" of 15 bytes that claims to name four billion functions.
var hugeNames = encode.Code(0, 13, encode.Sized([]byte("name")), 1, 6, encode.Uleb(1<<32-1), 0)

// FuzzMeter feeds damaged modules in: never a panic, what was valid stays valid, and what
// was not does not become so.
func FuzzMeter(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(generated(seed))
	}
	table := &encode.Module{}
	table.Import("env", "f", i32, i32)
	table.Table(2, 4)
	table.Memory(1, 1)
	table.Global(encode.I64, true, encode.Const64(3))
	table.Start(table.Func(nil, nil, []byte{encode.V128}, encode.Const32(0), 0xfd, 0, 4, 0, encode.Set(0), encode.Const32(0), 0x11, 1, 0))
	table.Element(0, encode.Const32(0), 0x0b, encode.List([][]byte{{1}}))
	table.Data(8, "data")
	table.PassiveData("passive")
	f.Add(table.Bytes())
	f.Add(wasmtest.BuildGo(f, "testdata/guest")[:4096])
	f.Add(append(table.Bytes(), hugeNames...))
	f.Fuzz(func(t *testing.T, wasm []byte) {
		if _, err := fuel.Parse(wasm); err != nil {
			return
		}
		runtime := interpreter(t.Context())
		defer runtime.Close(t.Context())
		if _, err := rewrite(wasm); err != nil {
			return
		}
		before, after := validity(t, runtime, wasm)
		require.Equal(t, before, after, "rewriting changes whether a module is valid")
	})
}
