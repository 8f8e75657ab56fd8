package engine_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/longshore-dev/longshore/host/policy/encode"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/fuel"
)

// Validation without compilation says what compilation says, of each kind of damage.
func TestValidateIsWhatTheCompilerDoes(t *testing.T) {
	runtime := wazero.NewRuntimeWithConfig(t.Context(), wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(api.CoreFeaturesV2))
	wasm := small().Bytes()
	random := rand.New(rand.NewPCG(8, 3))
	valid, invalid := 0, 0
	for range 3000 {
		damaged := append([]byte(nil), wasm...)
		damaged[random.IntN(len(damaged))] = byte(random.Uint32())
		compiled, err := runtime.CompileModule(t.Context(), damaged)
		if err == nil {
			valid++
			require.NoError(t, compiled.Close(t.Context()))
			require.NoError(t, engine.Validate(t.Context(), damaged))
			continue
		}
		invalid++
		got := engine.Validate(t.Context(), damaged)
		require.ErrorContains(t, got, "the module is not valid; its author must rebuild it: "+err.Error())
		require.True(t, engine.AtFault(got))
	}
	assert.Greater(t, valid, 50)
	assert.Greater(t, invalid, 500)
	require.NoError(t, engine.Validate(t.Context(), wasm))
	require.NoError(t, engine.Validate(t.Context(), (&encode.Module{}).Bytes()), "a module without functions")
	require.NoError(t, engine.Validate(t.Context(), builtin(t)))
}

// A real module with damage somewhere in its code is metered only when it was valid.
func TestDamagedRealModulesAreInvalidBeforeAndAfter(t *testing.T) {
	wasm := probe(t)
	random := rand.New(rand.NewPCG(8, 4))
	rounds, invalid := 60, 0
	if testing.Short() {
		rounds = 6
	}
	for range rounds {
		damaged := append([]byte(nil), wasm...)
		for range 1 + random.IntN(2) {
			damaged[len(damaged)/20+random.IntN(len(damaged)/2)] = byte(random.IntN(64))
		}
		before := engine.Validate(t.Context(), damaged)
		if before != nil {
			invalid++
		}
		parsed, err := fuel.Parse(damaged)
		if err != nil {
			continue
		}
		rewritten, err := parsed.Meter(names)
		if err != nil {
			continue
		}
		require.Equal(t, before == nil, engine.Validate(t.Context(), rewritten.Wasm) == nil)
	}
	assert.Greater(t, invalid, rounds/4)
}

func BenchmarkValidate(b *testing.B) {
	for name, wasm := range map[string][]byte{"builtin": builtin(b), "go": probe(b)} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(wasm)))
			for b.Loop() {
				require.NoError(b, engine.Validate(b.Context(), wasm))
			}
		})
	}
}
