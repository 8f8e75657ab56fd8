package process

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestMemoryIsFreedOnceAfterTheStart(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	freed := make(chan struct{}, 2)
	ended := make(chan error)
	go func() { ended <- settler{clock, func() { freed <- struct{}{} }}.Start(t.Context()) }()
	require.Eventually(t, clock.HasWaiters, 10*time.Second, time.Millisecond)
	clock.Step(settleTime - 1)
	assert.Empty(t, freed)
	clock.Step(1)
	require.NoError(t, <-ended)
	assert.Len(t, freed, 1)
}

func TestAProcessThatStopsFreesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, settler{clocktesting.NewFakeClock(time.Now()), func() { t.Error("freed") }}.Start(ctx))
}
