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

// echo answers with its request.
type echo struct{ calls uint64 }

func (*echo) Name() string   { return "echo" }
func (*echo) Digest() string { return "sha256:echo" }
func (*echo) Manifest() *contract.Manifest {
	return &contract.Manifest{Contracts: contract.Versions(), Points: []contract.PointManifest{{
		Point: contract.PodMutation, Writes: []contract.WriteRule{{Path: "/spec/a", Verbs: []contract.Verb{contract.VerbSet}}},
	}}}
}

func (p *echo) Call(_ context.Context, _ string, request []byte) ([]byte, engine.Stats, error) {
	p.calls++
	return append([]byte(nil), request...), engine.Stats{Ticks: p.calls}, nil
}

func TestARepeatedAnswerIsDecodedOnce(t *testing.T) {
	l, err := newLink(Binding{Name: "echo", Policy: &echo{}, Point: contract.PodMutation})
	require.NoError(t, err)
	const set = `{"version":"v1alpha1","operations":[{"op":"set","path":"/spec/a","value":1}]}`
	first, err := l.call(t.Context(), []byte(set))
	require.NoError(t, err)
	again, err := l.call(t.Context(), []byte(set))
	require.NoError(t, err)
	assert.Same(t, &first.operations[0], &again.operations[0])
	assert.Equal(t, []uint64{1, 2}, []uint64{first.stats.Ticks, again.stats.Ticks}, "each call has its own statistics")
	for range 2 {
		_, err = l.call(t.Context(), []byte(`{"version":"v1alpha1","operations":[{"op":"set","path":"/spec/b","value":1}]}`))
		undeclared, ok := errors.AsType[*classError](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, Undeclared, undeclared.class)
	}
	other, err := l.call(t.Context(), []byte(`{"version":"v1alpha1","warnings":["two"]}`))
	require.NoError(t, err)
	assert.Equal(t, []string{"two"}, other.warnings)
	assert.Empty(t, other.operations)
}
