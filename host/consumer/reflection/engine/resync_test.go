package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestEveryKeyHasOneTurnInAPeriod(t *testing.T) {
	turns := map[uint32]int{}
	const keys = 60 * resyncTurns
	for i := range keys {
		key := Key{Namespace: "shop", Name: fmt.Sprintf("web-%d", i)}
		turns[turnOf(key)]++
	}
	for turn := range uint32(resyncTurns) {
		assert.InDelta(t, keys/resyncTurns, turns[turn], 0.5*keys/resyncTurns, "turn %d has its share", turn)
	}
	assert.Len(t, turns, resyncTurns)
}

func TestAResyncOfUnchangedObjectsCostsNoRequest(t *testing.T) {
	var mu sync.Mutex
	decided := map[Key]int{}
	count := func(key Key) {
		mu.Lock()
		defer mu.Unlock()
		decided[key]++
	}
	local, remote := mapped(t, localMap("settings", map[string]string{"k": "1"}), localPod("shop", "web"), localPod("elsewhere", "waits"))
	var answer atomic.Bool
	w := startWith(t, local, remote, func(o *Options) {
		o.ResyncPeriod = resyncTurns * time.Millisecond
		o.Filter = func(_ context.Context, _, _ string, object, _ client.Object) (map[string]string, map[string]string, error) {
			if answer.Load() {
				return map[string]string{"answer": "other"}, nil, nil
			}
			return object.GetLabels(), object.GetAnnotations(), nil
		}
	}, counted{maps{}, count}, countedPods{pods{}, count})
	again := func(key Key) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return decided[key] > 5
		}
	}
	for _, key := range []Key{{"shop", "settings"}, {"shop", "web"}, {"elsewhere", "waits"}} {
		require.Eventually(t, again(key), soon, tick, "%s is decided again", key)
	}
	w.remoteData(t, "settings", "1")
	assert.Equal(t, 1, remote.count("patch ConfigMap"))
	assert.Equal(t, 1, remote.count("create ShadowPod"))
	assert.Equal(t, 1, local.count("patch Pod"))
	assert.Equal(t, []string{"elsewhere/waits ReflectionDisabled"}, w.journal.all(), "recorded once")

	// A change without event is found: here, a policy that answers otherwise now.
	answer.Store(true)
	require.Eventually(t, func() bool { return w.remoteLabels(t.Context(), "settings")["answer"] == "other" }, soon, tick)
}

// counted counts the decisions of maps.
type counted struct {
	maps
	count func(Key)
}

func (c counted) Decide(in Input) ([]Action, error) {
	c.count(in.Key)
	return c.maps.Decide(in)
}

// countedPods counts the decisions of pods.
type countedPods struct {
	pods
	count func(Key)
}

func (c countedPods) Decide(in Input) ([]Action, error) {
	c.count(in.Key)
	return c.pods.Decide(in)
}

func (c countedPods) Fallback(in Input) ([]Action, error) {
	c.count(in.Key)
	return c.pods.Fallback(in)
}
