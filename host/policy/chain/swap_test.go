package chain_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/policytest"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// closable fails when it is called after it was closed.
type closable struct {
	*policytest.Policy
	closed atomic.Bool
	misuse *atomic.Int64
}

func (p *closable) Call(ctx context.Context, export string, request []byte) ([]byte, engine.Stats, error) {
	defer func() {
		if p.closed.Load() {
			p.misuse.Add(1)
		}
	}()
	return p.Policy.Call(ctx, export, request)
}

func TestSwapUnderLoadLosesNothing(t *testing.T) {
	var misuse, retired atomic.Int64
	version := func(name string) *closable {
		return &closable{misuse: &misuse, Policy: policytest.Native("module", contract.Manifest{Version: name, Points: []contract.PointManifest{{
			Point: contract.PodMutation, Writes: writes("/spec/hostname", "set"),
		}}}, map[contract.Point]func(contract.Request) (contract.Response, error){
			contract.PodMutation: answers(contract.Set("/spec/hostname", contract.String(name))),
		})}
	}
	chains := chain.New(chain.Options{MemoEntries: -1, Retired: func(p chain.Policy) {
		c, ok := p.(*closable)
		if ok && !c.closed.Swap(true) {
			retired.Add(1)
		}
	}})
	bindings := func(p chain.Policy) []chain.Binding {
		return []chain.Binding{{Name: "p", Policy: p, Point: contract.PodMutation}}
	}
	require.NoError(t, chains.Swap(bindings(version("first"))))

	ctx, stop := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	var evaluated atomic.Int64
	var failed atomic.Bool
	for range 8 {
		workers.Go(func() {
			for ctx.Err() == nil {
				result, err := chains.Evaluate(t.Context(), podInput(`{}`))
				if err != nil || len(result.Decisions) != 1 {
					failed.Store(true)
					return
				}
				evaluated.Add(1)
			}
		})
	}
	const swaps = 300
	names := []string{"a", "b", "c"}
	for i := range swaps {
		name := names[i%len(names)]
		require.NoError(t, chains.Swap(bindings(version(name))))
		result, err := chains.Evaluate(t.Context(), podInput(`{}`))
		require.NoError(t, err)
		assert.Equal(t, `{"spec":{"hostname":"`+name+`"}}`, encoded(t, result.Object), "decided by the new version")
	}
	stop()
	workers.Wait()
	assert.False(t, failed.Load(), "every question was answered, by one policy")
	assert.Zero(t, misuse.Load(), "no module was closed under a call")
	assert.Equal(t, int64(swaps), retired.Load(), "every old module was retired, once")
	assert.Positive(t, evaluated.Load())
}

func TestAPolicyThatStaysIsNotRetired(t *testing.T) {
	var retired []string
	chains := chain.New(chain.Options{Retired: func(p chain.Policy) { retired = append(retired, p.Name()) }})
	stays, goes := policy("stays", nil, nil, answers()), policy("goes", nil, nil, answers())
	require.NoError(t, chains.Swap([]chain.Binding{bind(stays), bind(goes)}))
	require.NoError(t, chains.Swap([]chain.Binding{bind(stays)}))
	assert.Equal(t, []string{"goes"}, retired)
	require.NoError(t, chains.Swap(nil))
	assert.Equal(t, []string{"goes", "stays"}, retired)
}

// gate blocks calls until it is opened.
type gate struct {
	*policytest.Policy
	entered chan struct{}
	open    chan struct{}
}

func (p *gate) Call(ctx context.Context, export string, request []byte) ([]byte, engine.Stats, error) {
	p.entered <- struct{}{}
	<-p.open
	return p.Policy.Call(ctx, export, request)
}

func TestEqualQuestionsThatMeetAreOneCall(t *testing.T) {
	p := &gate{Policy: policy("slow", nil, nil, answers()), entered: make(chan struct{}), open: make(chan struct{})}
	chains := swapped(t, chain.Options{}, bind(p))

	canceled, cancel := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, err := chains.Evaluate(canceled, podInput(`{}`))
		left <- err
	}()
	<-p.entered
	const others = 20
	answered := make(chan error, others)
	for range others {
		go func() {
			_, err := chains.Evaluate(t.Context(), podInput(`{}`))
			answered <- err
		}()
	}
	cancel()
	require.ErrorIs(t, <-left, context.Canceled, "who gives up does not wait")
	close(p.open)
	for range others {
		select {
		case err := <-answered:
			require.NoError(t, err, "the others still get their answer")
		case <-p.entered:
			t.Fatal("the policy was called twice")
		case <-time.After(10 * time.Second):
			t.Fatal("no answer")
		}
	}
	assert.Equal(t, 1, p.Calls())
}

func TestACanceledRequestIsNoFailureOfThePolicy(t *testing.T) {
	p := bind(policy("p", nil, nil, answers()))
	p.FailurePolicy = chain.Ignore
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := swapped(t, chain.Options{}, p).Evaluate(ctx, podInput(`{}`))
	require.ErrorIs(t, err, context.Canceled)
}
