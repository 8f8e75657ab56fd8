package virtualnode

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// forbidden returns the error of the API server for an eviction that a budget forbids.
func forbidden(reason metav1.StatusReason, budget string, healthy int) error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	if reason == metav1.StatusReasonForbidden {
		err.ErrStatus.Code, err.ErrStatus.Reason = http.StatusForbidden, reason
	}
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type:    policyv1.DisruptionBudgetCause,
		Message: fmt.Sprintf("The disruption budget %s needs 2 healthy pods and has %d currently", budget, healthy),
	})
	return err
}

// draining returns a VirtualNode that is being deleted, and its Node with pods.
func draining(names ...string) (*offloadingv1beta1.VirtualNode, []client.Object) {
	objects := append(peered(kubeconfig), nodeOf(virtualNode(nil)))
	for _, name := range names {
		objects = append(objects, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", UID: types.UID(name)}, Spec: corev1.PodSpec{NodeName: "mynode", Containers: []corev1.Container{{Name: "web"}}},
		})
	}
	return deleted(virtualNode(nil)), objects
}

func TestDrainReportsRejectedEvictions(t *testing.T) {
	const owner = `: the owner of the budget in namespace "shop" must permit the eviction (more replicas on other nodes, or another budget), or the owner of the pod must delete it`
	web := "pod shop/web is not evicted: The disruption budget web needs 2 healthy pods and has 2 currently" + owner
	for name, tc := range map[string]struct {
		pods    []string
		answers map[string]error
		want    string
		event   string
	}{
		"a budget forbids one of two evictions": {pods: []string{"free", "web"}, answers: map[string]error{"web": forbidden(metav1.StatusReasonTooManyRequests, "web", 2)},
			want: "Draining: 2 pods left: " + web, event: web},
		"a budget forbids an eviction with another status code": {pods: []string{"web"}, answers: map[string]error{"web": forbidden(metav1.StatusReasonForbidden, "web", 2)},
			want: "Draining: 1 pods left: " + web, event: web},
		"the API server is busy": {pods: []string{"web"}, answers: map[string]error{"web": apierrors.NewTooManyRequests("too many requests, please try again later", 0)},
			want: "Draining: 1 pods left: pod shop/web is not evicted yet: too many requests, please try again later"},
		"a budget forbids many evictions": {
			pods: []string{"a", "b", "c", "d", "e"}, answers: map[string]error{
				"a": forbidden(metav1.StatusReasonTooManyRequests, "a", 2), "b": forbidden(metav1.StatusReasonTooManyRequests, "b", 2), "c": forbidden(metav1.StatusReasonTooManyRequests, "c", 2),
				"d": forbidden(metav1.StatusReasonTooManyRequests, "d", 2), "e": forbidden(metav1.StatusReasonTooManyRequests, "e", 2)},
			want:  "; and 2 more are not evicted",
			event: "pod shop/a is not evicted: The disruption budget a needs 2 healthy pods and has 2 currently" + owner},
	} {
		t.Run(name, func(t *testing.T) {
			vn, objects := draining(tc.pods...)
			r, recorder := reconcilerWithEvictions(t, vn, objects, func(pod string) error { return tc.answers[pod] })
			for range 3 { // One event for three passes.
				current := &offloadingv1beta1.VirtualNode{}
				require.NoError(t, r.Client.Get(t.Context(), client.ObjectKeyFromObject(vn), current))
				_, err := r.Reconcile(t.Context(), current)
				require.NoError(t, err)
				assert.Contains(t, conditions(current)["Node"], tc.want)
			}
			close(recorder.Events)
			var recorded []string
			for e := range recorder.Events {
				recorded = append(recorded, e)
			}
			if tc.event == "" {
				assert.Empty(t, recorded, "no action is needed")
				return
			}
			require.Len(t, recorded, 1)
			assert.Equal(t, "Warning DrainForbidden "+tc.event, recorded[0])
		})
	}
}

// Only longshorectl force unpeer, which sets the annotation, ends pods without their budgets.
func TestADrainHonorsBudgetsWhenTheForeignClusterIsDeleted(t *testing.T) {
	lost := peered(kubeconfig)[0]
	lost.SetAnnotations(map[string]string{liqocorev1beta1.PermanentlyUnreachableAnnotation: "true"})
	for name, tc := range map[string]struct {
		foreignClusters []client.Object
		deleted         bool
	}{
		"it exists":                 {peered(kubeconfig)[:1], false},
		"it was deleted":            {nil, false},
		"it is declared to be lost": {[]client.Object{lost}, true},
	} {
		t.Run(name, func(t *testing.T) {
			vn, objects := draining("web")
			for _, object := range objects {
				if pod, isPod := object.(*corev1.Pod); isPod {
					pod.Finalizers = []string{batchv1.JobTrackingFinalizer}
				}
			}
			objects = slices.DeleteFunc(objects, func(object client.Object) bool {
				_, ok := object.(*liqocorev1beta1.ForeignCluster)
				return ok
			})
			r, _ := reconcilerWithEvictions(t, vn, append(objects, tc.foreignClusters...), func(string) error {
				return forbidden(metav1.StatusReasonTooManyRequests, "web", 2)
			})
			current := &offloadingv1beta1.VirtualNode{}
			require.NoError(t, r.Client.Get(t.Context(), client.ObjectKeyFromObject(vn), current))
			_, err := r.Reconcile(t.Context(), current)
			require.NoError(t, err)
			pod := &corev1.Pod{}
			require.NoError(t, r.Client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "web"}, pod))
			assert.Equal(t, tc.deleted, !pod.DeletionTimestamp.IsZero())
			assert.Equal(t, tc.deleted, pod.Status.Phase == corev1.PodFailed, "the Job releases it then")
		})
	}
}

// reconcilerWithEvictions returns a Reconciler whose evictions only have the given result.
func reconcilerWithEvictions(t *testing.T, vn *offloadingv1beta1.VirtualNode, objects []client.Object, answer func(pod string) error) (*Reconciler, *events.FakeRecorder) {
	t.Helper()
	w := pass(t, virtualNode(nil)) // Only for its client.
	require.NoError(t, w.Delete(t.Context(), w.vn))
	for _, obj := range objects {
		require.NoError(t, w.Create(t.Context(), obj))
	}
	answering := interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
		SubResourceCreate: func(_ context.Context, _ client.Client, _ string, obj, _ client.Object, _ ...client.SubResourceCreateOption) error {
			return answer(obj.GetName())
		},
	})
	recorder := events.NewFakeRecorder(20)
	return &Reconciler{Client: answering, APIReader: w.Client, Events: recorder, Clock: testclock.NewFakePassiveClock(time.Unix(0, 0))}, recorder
}
