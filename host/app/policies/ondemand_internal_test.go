package policies

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/sdk/contract"
)

var errSettings = errors.New("settings are wrong")

// countedModule counts how often it is closed; its calls wait for proceed.
type countedModule struct {
	closed  *atomic.Int32
	proceed chan struct{}
}

func (countedModule) Name() string                 { return "default" }
func (countedModule) Digest() string               { return "sha256:1" }
func (countedModule) Manifest() *contract.Manifest { return &contract.Manifest{Name: "default"} }
func (countedModule) ChecksSettings() bool         { return true }
func (countedModule) Instances() (idle, all int)   { return 1, 1 }

func (m countedModule) Call(context.Context, string, []byte) ([]byte, engine.Stats, error) {
	<-m.proceed
	return []byte("{}"), engine.Stats{}, nil
}

func (countedModule) ValidateSettings(context.Context, json.RawMessage, ...contract.Point) error {
	return errSettings
}

func (m countedModule) Close(context.Context) error {
	m.closed.Add(1)
	return nil
}

const testIdle = time.Minute

func TestAModuleOnDemandIsInMemoryUntilAWhileAfterItsLastCall(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	closed, loads := &atomic.Int32{}, &atomic.Int32{}
	module := countedModule{closed: closed, proceed: make(chan struct{})}
	policy := newOnDemand(t.Context(), clock, testIdle, module, func(context.Context) (loadedModule, error) {
		loads.Add(1)
		return module, nil
	})
	clock.Step(testIdle - 1)
	_, all := policy.Instances()
	assert.Equal(t, 1, all, "the first module serves the calls of the start")
	clock.Step(1)
	require.Eventually(t, func() bool { return closed.Load() == 1 }, time.Minute, time.Millisecond, "the first module is dropped when nothing calls it")
	assert.Equal(t, "default", policy.Name())
	assert.Equal(t, "sha256:1", policy.Digest())
	assert.Equal(t, "default", policy.Manifest().Name)
	assert.True(t, policy.ChecksSettings())
	_, all = policy.Instances()
	assert.Zero(t, all)

	// Two calls at once load it once, and the timer of an earlier call does not drop it.
	require.ErrorIs(t, policy.ValidateSettings(t.Context(), nil), errSettings)
	var calls sync.WaitGroup
	for range 2 {
		calls.Go(func() {
			answer, _, err := policy.Call(t.Context(), "export", nil)
			if assert.NoError(t, err) {
				assert.Equal(t, "{}", string(answer))
			}
		})
	}
	require.Eventually(t, func() bool {
		policy.mu.Lock()
		defer policy.mu.Unlock()
		return policy.calls == 2
	}, time.Minute, time.Millisecond)
	clock.Step(testIdle)
	assert.EqualValues(t, 1, closed.Load())
	_, all = policy.Instances()
	assert.Equal(t, 1, all)
	close(module.proceed)
	calls.Wait()
	assert.EqualValues(t, 1, loads.Load())

	clock.Step(testIdle)
	require.Eventually(t, func() bool { return closed.Load() == 2 }, time.Minute, time.Millisecond, "it is dropped after the last call")
	_, _, err := policy.Call(t.Context(), "export", nil)
	require.NoError(t, err)
	assert.EqualValues(t, 2, loads.Load(), "a call after the pause loads it again")
}

func TestAModuleOnDemandThatCannotBeLoadedFailsTheCall(t *testing.T) {
	gone := errors.New("the cache is gone")
	clock, closed := clocktesting.NewFakeClock(time.Now()), &atomic.Int32{}
	policy := newOnDemand(t.Context(), clock, testIdle, countedModule{closed: closed}, func(context.Context) (loadedModule, error) {
		return nil, gone
	})
	clock.Step(testIdle)
	require.Eventually(t, func() bool { return closed.Load() == 1 }, time.Minute, time.Millisecond)
	_, _, err := policy.Call(t.Context(), "export", nil)
	require.ErrorIs(t, err, gone)
	require.ErrorIs(t, policy.ValidateSettings(t.Context(), nil), gone)
}
