package foreigncluster

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	testclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
)

// A status that is absent in the cache is written as a whole, with the fields of other writers.
func TestAStaleStatusDoesNotReplaceTheNetwork(t *testing.T) {
	fc := &liqocorev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "rome"}, Spec: liqocorev1beta1.ForeignClusterSpec{ClusterID: "rome"}}
	c := fakeclient.Builder(fc).Build()
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(fc), fc))
	stale := fc.DeepCopy()
	fc.Status.Role = liqocorev1beta1.ConsumerRole
	fc.Status.Modules.Networking.Enabled = true
	require.NoError(t, c.Status().Update(t.Context(), fc))

	isStale := true
	r := &Reconciler{Clock: testclock.NewFakePassiveClock(time.Unix(1, 0)), Client: interceptor.NewClient(c, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if clusters, ok := list.(*liqocorev1beta1.ForeignClusterList); ok && isStale {
				clusters.Items = []liqocorev1beta1.ForeignCluster{*stale}
				return nil
			}
			return c.List(ctx, list, opts...)
		},
	})}
	request := ctrl.Request{NamespacedName: client.ObjectKey{Name: "rome"}}
	result, err := r.Reconcile(t.Context(), request)
	require.NoError(t, err)
	assert.Positive(t, result.RequeueAfter)
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(fc), fc))
	assert.True(t, fc.Status.Modules.Networking.Enabled)

	isStale = false
	result, err = r.Reconcile(t.Context(), request)
	require.NoError(t, err)
	assert.Zero(t, result)
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(fc), fc))
	assert.True(t, fc.Status.Modules.Networking.Enabled)
	assert.Equal(t, liqocorev1beta1.UnknownRole, fc.Status.Role, "the reconciler's own fields are written")
}

// Fifty Nodes that become ready within nodeDelay change the status of their provider once.
func TestChangesOfNodesAreCollected(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(1, 0))
	queue := workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request](),
		workqueue.TypedRateLimitingQueueConfig[ctrl.Request]{Clock: clock})
	defer queue.ShutDown()
	handler := collect()
	for i := range 50 {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i), Labels: map[string]string{liqocorev1beta1.RemoteClusterIDLabel: "milan"}}}
		handler.Create(t.Context(), event.CreateEvent{Object: node}, queue)
		handler.Update(t.Context(), event.UpdateEvent{ObjectOld: node, ObjectNew: node}, queue)
		handler.Delete(t.Context(), event.DeleteEvent{Object: node}, queue)
	}
	require.Eventually(t, clock.HasWaiters, time.Minute, time.Millisecond)
	assert.Zero(t, queue.Len())
	require.Eventually(t, func() bool {
		clock.Step(nodeDelay)
		return queue.Len() == 1
	}, time.Minute, time.Millisecond)
	request, _ := queue.Get()
	assert.Equal(t, "milan", request.Name)
}
