package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// later is [maps], or [shared], whose objects are read after those of pods.
type later struct {
	maps
	leaderOnly bool
}

func (l later) Resource() Resource {
	resource := maps{}.Resource()
	resource.After, resource.LeaderOnly = "pod", l.leaderOnly
	return resource
}

func TestAResourceIsReadAfterAnother(t *testing.T) {
	for name, leaderOnly := range map[string]bool{"in each virtual node": false, "in the leader": true} {
		t.Run(name, func(t *testing.T) {
			local, remote := mapped(t, localMap("settings", map[string]string{"k": "1"}), localPod("shop", "web"))
			remote.deny("shop-rome", errors.New("not now"))
			w := start(t, local, remote, later{leaderOnly: leaderOnly}, pods{})
			w.engine.Lead(true)
			require.Eventually(t, func() bool { return remote.count("watch ShadowPodList") > 0 }, soon, tick)
			w.engine.Lead(false)
			w.engine.Lead(true)
			require.Eventually(t, w.engine.Settled, soon, tick)
			assert.Zero(t, remote.count("watch ConfigMapList"))

			remote.deny("shop-rome", nil)
			w.remoteData(t, "settings", "1")
			w.remap(t, nil)
			require.Eventually(t, func() bool { return remote.openWatches() == 0 }, soon, tick, "its informers are released, too")
		})
	}
}

func TestAResourceDoesNotWaitForAnAbsentOne(t *testing.T) {
	local, remote := mapped(t, localMap("settings", map[string]string{"k": "1"}))
	w := start(t, local, remote, later{})
	w.remoteData(t, "settings", "1")
}

func TestAResourceWaitsForOneThatCannotBeRead(t *testing.T) {
	local, remote := mapped(t, localMap("settings", map[string]string{"k": "1"}))
	remote.deny("shop-rome", apierrors.NewForbidden(schema.GroupResource{Resource: "shadowpods"}, "", errors.New("no")))
	w := start(t, local, remote, later{}, pods{})
	require.Eventually(t, func() bool { return remote.count("watch ShadowPodList") > 0 }, soon, tick)
	w.end()
	assert.Zero(t, remote.count("watch ConfigMapList"))
}

func TestResourcesThatCanWaitAreReadSlowly(t *testing.T) {
	local, remote := twoNamespaces(t, localMap("settings", map[string]string{"k": "1"}))
	w := prepare(t, local, remote, func(*Options) {}, later{}, pods{})
	// One namespace may be read, and the other a day later.
	w.engine.later = rate.NewLimiter(rate.Every(24*time.Hour), 1)
	w.run(t)
	require.Eventually(t, func() bool {
		return remote.count("watch ShadowPodList") == 2 && remote.count("watch ConfigMapList") == 1 && remote.openWatches() == 5
	}, soon, tick, "ShadowPods and pods of two namespaces, and the ConfigMaps of one")
	w.remap(t, nil)
	require.Eventually(t, func() bool { return remote.openWatches() == 0 }, soon, tick, "the one that waits is released, too")
	w.end()
	assert.Equal(t, 1, remote.count("watch ConfigMapList"))
}
