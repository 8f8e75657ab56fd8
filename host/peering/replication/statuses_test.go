package replication

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/budget"
)

var now = time.Date(2026, 11, 28, 7, 0, 0, 0, time.UTC)

// follower returns a reflector for a local object whose worker is the test, and a function that reports a
// status of the copy to it.
func follower(t *testing.T, resource schema.GroupVersionResource, kind string) (*reflector, func(status map[string]any) (written int, err error)) {
	t.Helper()
	local := ownObject(func(u *unstructured.Unstructured) {
		u.SetGroupVersionKind(resource.GroupVersion().WithKind(kind))
		u.SetUID("local")
	})
	client := dynamicClient(local)
	r := &reflector{
		own: "rome", peer: peer{id: "milan", localNamespace: consumerTenant, remoteNamespace: providerTenant}, local: client, remote: dynamicClient(),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[key]()), budget: budget.New(), writes: map[key]*budget.Object{},
		now: func() time.Time { return now },
	}
	t.Cleanup(r.queue.ShutDown)
	return r, func(status map[string]any) (int, error) {
		reported := local.DeepCopy()
		reported.Object["status"] = status
		client.ClearActions()
		err := r.act(t.Context(), copyStatus, key{resource: resource, name: "milan"}, local, reported)
		return len(client.Actions()), err
	}
}

// A VirtualNode and a Node are made of the status of a ResourceSlice.
func TestAStatusHasASize(t *testing.T) {
	slices, renews := authv1beta1.GroupVersion.WithResource("resourceslices"), authv1beta1.GroupVersion.WithResource("renews")
	for name, tc := range map[string]struct {
		resource schema.GroupVersionResource
		kind     string
		size     int
		want     string
	}{
		"a slice":                          {slices, "ResourceSlice", 8 << 10, ""},
		"a slice with too many labels":     {slices, "ResourceSlice", 100 << 10, `its status in cluster "milan" has 100 KiB, and at most 64 KiB are copied: an administrator of that cluster must correct it`},
		"a renewal that is too large":      {renews, "Renew", 1 << 20, `its status in cluster "milan" has 1024 KiB`},
		"a map of thousands of namespaces": {nsMaps, "NamespaceMap", 1 << 20, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, report := follower(t, tc.resource, tc.kind)
			written, err := report(map[string]any{"text": strings.Repeat("x", tc.size)})
			if tc.want != "" {
				require.ErrorContains(t, err, tc.want)
				assert.Zero(t, written)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, 1, written)
		})
	}
}

// A provider that changes a status again and again has it written a few times, and the newest one later.
func TestAStatusThatChangesAllTheTimeIsCopiedSometimes(t *testing.T) {
	_, report := follower(t, nsMaps, "NamespaceMap")
	total := 0
	for i := range 1_000 {
		written, err := report(map[string]any{"text": fmt.Sprint(i)})
		require.NoError(t, err, "it is not an error: the object is looked at again")
		total += written
	}
	assert.Equal(t, budget.ObjectBurst, total)
}
