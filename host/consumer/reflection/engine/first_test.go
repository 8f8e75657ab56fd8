package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// needs is a definition of what pods need, which it sends when it is awaited.
type needs struct{ holds *atomic.Bool }

func (n needs) Resource() Resource {
	resource := pods{}.Resource()
	resource.Name, resource.Remote, resource.Dependent, resource.RemoteLabels = "need", maps{}.Resource().Remote, nil, nil
	return resource
}

func (n needs) Decide(in Input) ([]Action, error) {
	switch {
	case in.Local == nil || !in.IsAwaited:
		return []Action{Keep{}}, nil
	case n.holds.Load():
		return []Action{Hold{Reason: "an earlier one is being deleted"}, Apply{}}, nil
	}
	return []Action{Apply{SkipPolicies: true, Config: corev1apply.ConfigMap(in.Key.Name, in.Facts.RemoteNamespace).WithLabels(owned)}}, nil
}

// What a remote object needs is there before it.
func TestAnotherResourceIsDecidedFirst(t *testing.T) {
	sends := pods{decide: func(in Input) ([]Action, error) {
		if in.Remote != nil {
			return []Action{Keep{}}, nil
		}
		return []Action{DecideFirst{Resource: "need"}, Create{Object: shadow(in)}}, nil
	}}
	local, remote := mapped(t, localPod("shop", "web"))
	n := needs{holds: &atomic.Bool{}}
	n.holds.Store(true)
	remote.fail("patch ConfigMap", errors.New("not now"))
	var before atomic.Bool
	remote.beforeAnswer = func(o client.Object) {
		if _, isMap := o.(*corev1.ConfigMap); isMap {
			before.Store(remote.count("create ShadowPod") == 0)
		}
	}
	// It is read later than the pods.
	remote.deny("shop-rome", errors.New("not now"))
	w := start(t, local, remote, sends, n)
	require.Eventually(t, func() bool { return remote.count("watch ConfigMapList") > 0 }, soon, tick)
	remote.deny("shop-rome", nil)
	created := func(ctx context.Context) bool {
		_, ok := get(ctx, w.remote.WithWatch, "shop-rome", "web", &offloadingv1beta1.ShadowPod{})
		return ok
	}
	require.Eventually(t, func() bool { return w.engine.runners[0].queue.NumRequeues(Key{"shop", "web"}) > 1 }, soon, tick, "it waits")
	assert.False(t, created(t.Context()))
	n.holds.Store(false)
	require.Eventually(t, func() bool { return created(t.Context()) }, soon, tick)
	assert.True(t, before.Load())
	assert.Equal(t, 2, remote.count("patch ConfigMap"))

	t.Run("unless it is not reflected", func(t *testing.T) {
		local, remote := mapped(t, localPod("shop", "web"))
		w := start(t, local, remote, sends)
		require.Eventually(t, func() bool {
			_, ok := get(t.Context(), w.remote.WithWatch, "shop-rome", "web", &offloadingv1beta1.ShadowPod{})
			return ok
		}, soon, tick)
	})
}
