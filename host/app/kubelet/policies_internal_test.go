package kubelet

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/app/policies"
	"github.com/longshore-dev/longshore/host/policy/chain"
)

func TestPoliciesAreNotReadyBeforeTheyAreLoaded(t *testing.T) {
	l := &policyLoader{}
	require.ErrorIs(t, l.Ready(), chain.ErrNotLoaded)
	require.NotNil(t, l.notReady())
	assert.Equal(t, "PoliciesNotLoaded", l.notReady().Reason)
	_, err := l.Evaluate(t.Context(), chain.Input{})
	require.ErrorIs(t, err, chain.ErrNotLoaded)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	assert.False(t, l.await(ended))
	assert.NoError(t, l.Close(t.Context()))
}

func TestErrorsOfLoadingPoliciesEndTheProcessUnlessItStops(t *testing.T) {
	errBroken := errors.New("broken module")
	l := &policyLoader{policies.Lazy{Load: func(context.Context) (*policies.Policies, error) { return nil, errBroken }}}
	require.ErrorIs(t, l.Run(t.Context()), errBroken)
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	assert.NoError(t, l.Run(stopped))
}
