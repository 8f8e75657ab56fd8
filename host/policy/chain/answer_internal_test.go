package chain

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// parrot answers what it is asked.
type parrot struct{ calls uint64 }

func (*parrot) Name() string   { return "parrot" }
func (*parrot) Digest() string { return "sha256:parrot" }
func (*parrot) Manifest() *contract.Manifest {
	return &contract.Manifest{Contracts: contract.Versions(), Points: []contract.PointManifest{{
		Point: contract.PodMutation, Writes: []contract.WriteRule{{Path: "/spec/a", Verbs: []contract.Verb{contract.VerbSet}}},
	}}}
}

func (p *parrot) Call(_ context.Context, _ string, request []byte) ([]byte, engine.Stats, error) {
	p.calls++
	return append([]byte(nil), request...), engine.Stats{Ticks: p.calls}, nil
}

// TestWhatAPolicySaysAgainIsNotDecodedAgain but means the same, and each answer tells what
// its own call cost.
func TestWhatAPolicySaysAgainIsNotDecodedAgain(t *testing.T) {
	l, err := newLink(Binding{Name: "parrot", Policy: &parrot{}, Point: contract.PodMutation})
	require.NoError(t, err)
	const one, two = `{"version":"v1alpha1","operations":[{"op":"set","path":"/spec/a","value":1}]}`, `{"version":"v1alpha1","warnings":["two"]}`
	first, err := l.ask(t.Context(), []byte(one))
	require.NoError(t, err)
	again, err := l.ask(t.Context(), []byte(one))
	require.NoError(t, err)
	assert.Same(t, &first.operations[0], &again.operations[0])
	assert.Equal(t, []uint64{1, 2}, []uint64{first.stats.Ticks, again.stats.Ticks})
	for range 2 {
		_, err = l.ask(t.Context(), []byte(`{"version":"v1alpha1","operations":[{"op":"set","path":"/spec/b","value":1}]}`))
		wrong, ok := errors.AsType[*fault](err)
		require.True(t, ok, "what is wrong is wrong each time: %v", err)
		assert.Equal(t, Undeclared, wrong.class)
	}
	other, err := l.ask(t.Context(), []byte(two))
	require.NoError(t, err)
	assert.Equal(t, []string{"two"}, other.warnings)
	assert.Empty(t, other.operations)
}
