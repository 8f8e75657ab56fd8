package engine

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// removed removes remote ConfigMaps that an earlier process made.
type removed struct{ maps }

func (removed) Resource() Resource {
	resource := maps{}.Resource()
	resource.LocalUnwatched, resource.RemoteOnce, resource.Filter, resource.Policy = true, true, false, offloadingv1beta1.CustomLiqo
	return resource
}

func TestRemoteObjectsAreListedOnce(t *testing.T) {
	stored := func(t *testing.T) (local, remote *cluster) {
		t.Helper()
		local, remote = mapped(t, localMap("settings", nil))
		left := providerMap("settings", "1")
		left.Labels = owned
		require.NoError(t, remote.Create(t.Context(), left))
		require.NoError(t, remote.Create(t.Context(), providerMap("theirs", "1")))
		return local, remote
	}
	t.Run("after an error that passes", func(t *testing.T) {
		local, remote := stored(t)
		remote.fail("list ConfigMapList", errors.New("down"))
		start(t, local, remote, removed{})
		require.Eventually(t, func() bool { return remote.count("delete ConfigMap") == 1 }, soon, tick)
		_, exists := get(t.Context(), remote.WithWatch, "shop-rome", "theirs", &corev1.ConfigMap{})
		assert.True(t, exists, "an unmanaged object is kept")
		assert.Zero(t, remote.openWatches())
		assert.Equal(t, 2, remote.count("list ConfigMapList"))
	})
	t.Run("not after one that an operator must resolve", func(t *testing.T) {
		local, remote := stored(t)
		remote.deny("shop-rome", apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", errors.New("no")))
		w := start(t, local, remote, removed{})
		require.Eventually(t, func() bool { return remote.count("list ConfigMapList") == 1 }, soon, tick)
		w.end() // waits for what would list again
		assert.Equal(t, 1, remote.count("list ConfigMapList"))
	})
}
