package policies

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"
)

type counting chan struct{}

func (c counting) Trim() { c <- struct{}{} }

func TestMemoryIsGivenBackOnceAMinute(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	trims, ended := make(counting), make(chan error, 1)
	go func() { ended <- trimmer{trims, clock}.Start(ctx) }()
	require.Eventually(t, clock.HasWaiters, time.Minute, time.Millisecond)
	for range 3 {
		clock.Step(trimPeriod)
		<-trims
	}
	cancel()
	require.NoError(t, <-ended)
}
