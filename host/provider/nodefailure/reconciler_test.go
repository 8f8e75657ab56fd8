package nodefailure

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
)

func node(status corev1.ConditionStatus) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}
	if status != "" {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue}, {Type: corev1.NodeReady, Status: status}}
	}
	return n
}

// terminatingPod returns a pod of a ShadowPod that is being deleted.
func terminatingPod(edit func(*corev1.Pod)) *corev1.Pod {
	now := metav1.Now()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop-rome", Name: "web", UID: "1", DeletionTimestamp: &now, Finalizers: []string{"test/keeps-it"},
		Labels: map[string]string{offloadingv1beta1.ManagedByLabel: offloadingv1beta1.ManagedByShadowPod},
	}, Spec: corev1.PodSpec{NodeName: "worker"}}
	if edit != nil {
		edit(pod)
	}
	return pod
}

func TestWhichPodsAreDeleted(t *testing.T) {
	for name, tc := range map[string]struct {
		node *corev1.Node
		pod  *corev1.Pod
		want bool
	}{
		"the node is not ready":         {node(corev1.ConditionFalse), terminatingPod(nil), true},
		"the node is silent":            {node(corev1.ConditionUnknown), terminatingPod(nil), true},
		"the node never reported":       {node(""), terminatingPod(nil), true},
		"the node is ready":             {node(corev1.ConditionTrue), terminatingPod(nil), false},
		"the pod is not being deleted":  {node(corev1.ConditionFalse), terminatingPod(func(p *corev1.Pod) { p.DeletionTimestamp, p.Finalizers = nil, nil }), false},
		"the pod is the provider's own": {node(corev1.ConditionFalse), terminatingPod(func(p *corev1.Pod) { p.Labels = nil }), false},
		"the pod is on another node":    {node(corev1.ConditionFalse), terminatingPod(func(p *corev1.Pod) { p.Spec.NodeName = "other" }), false},
		"the pod belongs to an EndpointSlice": {node(corev1.ConditionFalse), terminatingPod(func(p *corev1.Pod) {
			p.Labels[offloadingv1beta1.ManagedByLabel] = offloadingv1beta1.ManagedByShadowEndpointSlice
		}), false},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, hasFailed(tc.node, tc.pod))
			var deleted []client.DeleteOptions
			c := fakeclient.Builder(tc.node, tc.pod).WithIndex(&corev1.Pod{}, nodeNameIndex, nodeNameOf).
				WithInterceptorFuncs(interceptor.Funcs{Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, options ...client.DeleteOption) error {
					o := client.DeleteOptions{}
					o.ApplyOptions(options)
					deleted = append(deleted, o)
					return nil
				}}).Build()
			_, err := (&Reconciler{Client: c}).Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "worker"}})
			require.NoError(t, err)
			if !tc.want {
				assert.Empty(t, deleted)
				return
			}
			require.Len(t, deleted, 1)
			assert.Zero(t, *deleted[0].GracePeriodSeconds)
			assert.EqualValues(t, "1", *deleted[0].Preconditions.UID)
		})
	}
}

func TestErrorsOfDeletions(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"the pod is gone":      {apierrors.NewNotFound(corev1.Resource("pods"), "web"), ""},
		"the API server fails": {errors.New("it fails"), `deleting pod shop-rome/web of the failed Node "worker": it fails`},
	} {
		t.Run(name, func(t *testing.T) {
			c := fakeclient.Builder(node(corev1.ConditionFalse), terminatingPod(nil)).WithIndex(&corev1.Pod{}, nodeNameIndex, nodeNameOf).
				WithInterceptorFuncs(interceptor.Funcs{Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return tc.err }}).Build()
			_, err := (&Reconciler{Client: c}).Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "worker"}})
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, tc.want)
		})
	}
}

func TestWhichEventsMatter(t *testing.T) {
	ready, failed := node(corev1.ConditionTrue), node(corev1.ConditionUnknown)
	p := becomesNotReady()
	assert.True(t, p.Create(event.CreateEvent{Object: failed}), "at the start of the controller")
	assert.False(t, p.Create(event.CreateEvent{Object: ready}))
	assert.True(t, p.Update(event.UpdateEvent{ObjectOld: ready, ObjectNew: failed}))
	assert.False(t, p.Update(event.UpdateEvent{ObjectOld: failed, ObjectNew: failed}), "heartbeats of a failed node")
	assert.False(t, p.Update(event.UpdateEvent{ObjectOld: failed, ObjectNew: ready}))
	assert.True(t, isTerminating(terminatingPod(nil)))
	assert.False(t, isTerminating(terminatingPod(func(p *corev1.Pod) { p.DeletionTimestamp = nil })))
	assert.False(t, isTerminating(terminatingPod(func(p *corev1.Pod) { p.Spec.NodeName = "" })))
}
