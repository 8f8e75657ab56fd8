package podstatus

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
)

func node(name string, status corev1.ConditionStatus, virtual bool) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	if virtual {
		n.Labels["liqo.io/type"] = "virtual-node"
	}
	if status != "" {
		n.Status.Conditions = []corev1.NodeCondition{
			{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse}, {Type: corev1.NodeReady, Status: status},
		}
	}
	return n
}

func pod(name, nodeName string, labels ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{}}, Spec: corev1.PodSpec{NodeName: nodeName}}
	for _, key := range labels {
		p.Labels[key] = "true"
	}
	return p
}

const offloaded, unavailable = "liqo.io/shadowPod", "liqo.io/remote-unavailable"

// cluster is a fake cluster that counts patches and fails the next ones.
type cluster struct {
	*Reconciler
	patches, fail int
}

func newCluster(objects ...client.Object) *cluster {
	f := &cluster{}
	c := fakeclient.Builder(objects...).
		WithIndex(&corev1.Pod{}, nodeNameField, func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).
		WithInterceptorFuncs(interceptor.Funcs{
			// The fake client supports field selectors for typed objects only.
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				partial, ok := list.(*metav1.PartialObjectMetadataList)
				if !ok {
					return c.List(ctx, list, opts...)
				}
				pods := &corev1.PodList{}
				err := c.List(ctx, pods, opts...)
				for i := range pods.Items {
					partial.Items = append(partial.Items, metav1.PartialObjectMetadata{ObjectMeta: pods.Items[i].ObjectMeta})
				}
				return err
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				if f.patches++; f.fail > 0 {
					f.fail--
					return apierrors.NewServiceUnavailable("busy")
				}
				return c.Patch(ctx, o, p, opts...)
			},
		}).Build()
	f.Reconciler = &Reconciler{Client: c, APIReader: c}
	return f
}

func (f *cluster) labeled(t *testing.T) []string {
	t.Helper()
	pods := &corev1.PodList{}
	require.NoError(t, f.Client.List(t.Context(), pods))
	var names []string
	for i := range pods.Items {
		if pods.Items[i].Labels[unavailable] == "true" {
			names = append(names, pods.Items[i].Name)
		}
	}
	return names
}

func TestReconcile(t *testing.T) {
	for name, tc := range map[string]struct {
		node    *corev1.Node
		want    []string
		patches int
		requeue bool
	}{
		"a Node with unknown status": {node("milan-1", corev1.ConditionUnknown, true), []string{"labeled", "web-0", "web-1"}, 2, true},
		"a Node that is not ready":   {node("milan-1", corev1.ConditionFalse, true), []string{"labeled", "web-0", "web-1"}, 2, true},
		"a Node without a condition": {node("milan-1", "", true), []string{"labeled", "web-0", "web-1"}, 2, true},
		"a Node that is ready":       {node("milan-1", corev1.ConditionTrue, true), nil, 1, false},
		"a Node that is not virtual": {node("milan-1", corev1.ConditionUnknown, false), []string{"labeled"}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newCluster(tc.node,
				pod("web-0", "milan-1", offloaded), pod("web-1", "milan-1", offloaded), pod("labeled", "milan-1", offloaded, unavailable),
				pod("not-offloaded", "milan-1"), pod("other-node", "milan-2", offloaded))
			result, err := f.Reconcile(t.Context(), tc.node)
			require.NoError(t, err)
			assert.Equal(t, tc.want, f.labeled(t))
			assert.Equal(t, tc.patches, f.patches, "no request without a difference")
			assert.Equal(t, tc.requeue, result.RequeueAfter > 0, "pods may be offloaded while the Node is not ready")
		})
	}
}

func TestFailedPatchDoesNotDelayOtherPods(t *testing.T) {
	down := node("milan-1", corev1.ConditionUnknown, true)
	f := newCluster(down, pod("web-0", "milan-1", offloaded), pod("web-1", "milan-1", offloaded), pod("web-2", "milan-1", offloaded))
	f.fail = 1
	_, err := f.Reconcile(t.Context(), down)
	require.ErrorContains(t, err, `labeling pod shop/web-0`)
	assert.Equal(t, []string{"web-1", "web-2"}, f.labeled(t))
	_, err = f.Reconcile(t.Context(), down)
	require.NoError(t, err)
	assert.Equal(t, []string{"web-0", "web-1", "web-2"}, f.labeled(t))
}

func TestDeletedPodIsIgnored(t *testing.T) {
	down := node("milan-1", corev1.ConditionUnknown, true)
	f := newCluster(down, pod("web-0", "milan-1", offloaded))
	f.Client = interceptor.NewClient(f.Client.(client.WithWatch), interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "web-0")
		},
	})
	_, err := f.Reconcile(t.Context(), down)
	require.NoError(t, err)
}

func TestIsReadinessChange(t *testing.T) {
	heartbeat := node("milan-1", corev1.ConditionTrue, true)
	heartbeat.Status.Conditions[1].LastHeartbeatTime = metav1.NewTime(time.Unix(1, 0))
	for name, tc := range map[string]struct {
		before, after *corev1.Node
		want          bool
	}{
		"a heartbeat":     {node("milan-1", corev1.ConditionTrue, true), heartbeat, false},
		"marked unknown":  {node("milan-1", corev1.ConditionTrue, true), node("milan-1", corev1.ConditionUnknown, true), true},
		"still not ready": {node("milan-1", corev1.ConditionUnknown, true), node("milan-1", corev1.ConditionFalse, true), false},
		"ready again":     {node("milan-1", corev1.ConditionUnknown, true), node("milan-1", corev1.ConditionTrue, true), true},
		"became virtual":  {node("milan-1", corev1.ConditionUnknown, false), node("milan-1", corev1.ConditionUnknown, true), true},
		"a real node":     {node("worker", corev1.ConditionTrue, false), node("worker", corev1.ConditionUnknown, false), false},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, isReadinessChange(tc.before, tc.after))
		})
	}
}
