package guests_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/conformance/guests"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/fuel"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// fate of a damaged module.
type fate int

const (
	refused fate = iota // by the rewriting
	invalid             // or by the engine, as the original is
	ran
)

// damaged runs a module with charges and without: what is valid stays valid, and what
// ends ends alike. The run without charges is made only when the one with them ended,
// so it ends, too.
func damaged(t *testing.T, e *engine.Engine, wasm []byte) fate {
	t.Helper()
	parsed, err := fuel.Parse(wasm)
	if err != nil {
		return refused
	}
	metered, err := parsed.Meter(names)
	if err != nil {
		return refused
	}
	exposed, err := parsed.Expose(names)
	require.NoError(t, err)
	ours, err := e.Compile(t.Context(), "metered", metered.Wasm, engine.Limits{})
	if err != nil {
		var failed *engine.CallError
		if !errors.As(err, &failed) { // it is not its start that failed
			_, err := e.Compile(t.Context(), "unmetered", exposed.Wasm, engine.Limits{})
			require.Error(t, err, "a valid module became invalid")
		}
		return invalid
	}
	defer func() { assert.NoError(t, ours.Close(t.Context())) }()
	bare, err := e.Compile(t.Context(), "unmetered", exposed.Wasm, engine.Limits{})
	require.NoError(t, err, "an invalid module became valid")
	defer func() { assert.NoError(t, bare.Close(t.Context())) }()
	for _, name := range []string{"the selector among others", "an escaped value", "cut in half"} {
		request := []byte(questions[name].request)
		got, _, gotErr := ours.Call(t.Context(), contract.PodMutation.Export(), request)
		if errors.Is(gotErr, engine.Timeout) {
			continue
		}
		want, _, wantErr := bare.Call(t.Context(), contract.PodMutation.Export(), request)
		assert.Equal(t, string(want), string(got))
		if wantErr == nil {
			assert.NoError(t, gotErr)
		} else {
			assert.EqualError(t, gotErr, asMetered(wantErr))
		}
	}
	return ran
}

// asMetered is the error as the other module would report it.
func asMetered(err error) string {
	var failed *engine.CallError
	if !errors.As(err, &failed) {
		return err.Error()
	}
	renamed := *failed
	renamed.Module = "metered"
	return renamed.Error()
}

// mutate changes some bytes, or cuts, or doubles a piece.
func mutate(random *rand.Rand, wasm []byte) []byte {
	wasm = slices.Clone(wasm)
	switch at := random.IntN(len(wasm)); random.IntN(8) {
	case 0:
		return wasm[:at]
	case 1:
		return slices.Concat(wasm[:at], wasm[max(0, at-random.IntN(32)):])
	default:
		for range 1 + random.IntN(3) {
			at = random.IntN(len(wasm))
			wasm[at] ^= 1 << random.IntN(8)
		}
		return wasm
	}
}

func newTestEngine(tb testing.TB) *engine.Engine {
	tb.Helper()
	e, err := engine.New(tb.Context(), engine.Options{})
	require.NoError(tb, err)
	tb.Cleanup(func() { assert.NoError(tb, e.Close(context.Background())) })
	return e
}

// Real modules with damage somewhere: never a panic, and nothing behaves differently
// with charges.
func TestDamagedGuests(t *testing.T) { each(t, damagedNothingChanges) }

func damagedNothingChanges(t *testing.T, g *guests.Guest, wasm []byte) {
	t.Helper()
	rounds := 150
	if testing.Short() {
		rounds = 30
	}
	if !g.Small {
		rounds = 8 // each compiles a language's runtime twice
	}
	e := newTestEngine(t)
	random := rand.New(rand.NewPCG(7, 11))
	fates := map[fate]int{}
	for range rounds {
		fates[damaged(t, e, mutate(random, wasm))]++
	}
	assert.Positive(t, fates[refused], "%v", fates)
	assert.Positive(t, fates[ran]+fates[invalid], "%v", fates)
	if g.Small {
		assert.Positive(t, fates[ran])
		assert.Positive(t, fates[invalid])
	}
}

func FuzzDamagedGuests(f *testing.F) {
	var wasm [][]byte
	for _, g := range guests.All() {
		if g.Small {
			if module, err := g.Build(f.Context()); err == nil {
				wasm = append(wasm, module)
			}
		}
	}
	f.Add(uint8(0), uint64(1), uint8(1))
	f.Fuzz(func(t *testing.T, guest uint8, seed uint64, rounds uint8) {
		damagedModule := wasm[int(guest)%len(wasm)]
		random := rand.New(rand.NewPCG(seed, 3))
		for range rounds % 4 {
			if len(damagedModule) > 0 {
				damagedModule = mutate(random, damagedModule)
			}
		}
		damaged(t, newTestEngine(t), damagedModule)
	})
}
