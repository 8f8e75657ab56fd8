package chain_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
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

// closable counts calls after it was closed.
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

// Replacing a module under load causes no errors, and every evaluation that begins after
// Swap has returned uses the new version.
func TestSwapUnderLoadLosesNothing(t *testing.T) {
	var misuse, retired atomic.Int64
	version := func(n int) *closable {
		name := strconv.Itoa(n)
		return &closable{misuse: &misuse, Policy: policytest.Native("module", contract.Manifest{Version: name, Points: []contract.PointManifest{{
			Point: contract.PodMutation, Writes: writes("/spec/hostname", "set"),
		}}}, map[contract.Point]func(contract.Request) (contract.Response, error){
			contract.PodMutation: answers(contract.Set("/spec/hostname", contract.String(name))),
		})}
	}
	chains := chain.New(chain.Options{Clock: time.Now, Retired: func(p chain.Policy) {
		c, ok := p.(*closable)
		if ok && !c.closed.Swap(true) {
			retired.Add(1)
		}
	}})
	bindings := func(p chain.Policy) []chain.Binding {
		return []chain.Binding{{Name: "p", Policy: p, Point: contract.PodMutation}}
	}
	require.NoError(t, chains.Swap(bindings(version(0))))

	ctx, stop := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	// reported is the version of the last Swap that has returned.
	var evaluated, reported atomic.Int64
	var failed atomic.Pointer[string]
	fail := func(format string, arguments ...any) {
		text := fmt.Sprintf(format, arguments...)
		failed.Store(&text)
	}
	for worker := range 200 {
		workers.Go(func() {
			latest := int64(-1)
			for ctx.Err() == nil && failed.Load() == nil {
				known := reported.Load()
				// Some requests are equal and cached.
				result, err := chains.Evaluate(t.Context(), podInput(fmt.Sprintf(`{"metadata":{"name":"%d"}}`, worker%3)))
				if err != nil || len(result.Decisions) != 1 {
					fail("%v", err)
					return
				}
				hostname, _ := result.Object["spec"].(map[string]any)["hostname"].(string)
				version, _ := strconv.ParseInt(hostname, 10, 64)
				if version < known || version < latest {
					fail("version %d was used after %d had been reported and %d had been used", version, known, latest)
				}
				latest = version
				evaluated.Add(1)
			}
		})
	}
	const swaps = 40
	for i := range swaps {
		for evaluated.Load() < int64(i)*100 && failed.Load() == nil {
			runtime.Gosched() // wait for evaluations between two swaps
		}
		require.NoError(t, chains.Swap(bindings(version(i+1))))
		reported.Store(int64(i + 1))
		result, err := chains.Evaluate(t.Context(), podInput(`{}`))
		require.NoError(t, err)
		assert.JSONEq(t, fmt.Sprintf(`{"spec":{"hostname":"%d"}}`, i+1), encoded(t, result.Object), "the new version is used")
	}
	stop()
	workers.Wait()
	if text := failed.Load(); text != nil {
		t.Fatal(*text)
	}
	assert.Zero(t, misuse.Load(), "no module was closed during a call")
	assert.Equal(t, int64(swaps), retired.Load(), "every old module was retired once")
	assert.Positive(t, evaluated.Load())
}

func TestABoundPolicyIsNotRetired(t *testing.T) {
	var retired []string
	chains := chain.New(chain.Options{Retired: func(p chain.Policy) { retired = append(retired, p.Name()) }})
	stays, goes := policy("stays", nil, nil, answers()), policy("goes", nil, nil, answers())
	require.NoError(t, chains.Swap([]chain.Binding{bind(stays), bind(goes)}))
	require.NoError(t, chains.Swap([]chain.Binding{bind(stays)}))
	assert.Equal(t, []string{"goes"}, retired)
	require.NoError(t, chains.Swap(nil))
	assert.Equal(t, []string{"goes", "stays"}, retired)
}

func TestACanceledRequestIsNotAFailureOfThePolicy(t *testing.T) {
	p := bind(policy("p", nil, nil, answers()))
	p.FailurePolicy = chain.Ignore
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := swapped(t, chain.Options{}, p).Evaluate(ctx, podInput(`{}`))
	require.ErrorIs(t, err, context.Canceled)
}
