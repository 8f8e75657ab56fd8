package resourceslice

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	counting "github.com/longshore-dev/longshore/host/provider/quota"
)

// abandonedPod is a ShadowPod of rome's slice old, which is gone.
func abandonedPod() *offloadingv1beta1.ShadowPod {
	shadow := &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{
		Name: "web", Namespace: "shop-rome", UID: "shadow-1", Labels: map[string]string{offloadingv1beta1.CreatorUserLabel: "old-a8a4c692b93b"},
	}}
	shadow.Spec.Pod.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
		Requests: list(map[corev1.ResourceName]string{"cpu": "3"}),
	}}}
	return shadow
}

// A consumer fills a slice, deletes its pods, which do not end, and the slice, and creates it again.
func TestASliceGrantsNothingBeforeItsQuotaCountsItsEarlierPods(t *testing.T) {
	p := newProvider(t)
	quota := p.quota(t)
	require.NoError(t, p.client.Delete(t.Context(), quota))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "web", Namespace: "shop-rome", Labels: map[string]string{offloadingv1beta1.CreatorUserLabel: counting.LabelValue(quota.Spec.User)},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: offloadingv1beta1.GroupVersion.String(), Kind: "ShadowPod", Name: "web", UID: "gone", Controller: ptr.To(true)}},
	}}
	pod.Spec = abandonedPod().Spec.Pod
	require.NoError(t, p.client.Create(t.Context(), pod))
	grantsUncounted := func() bool {
		quota := p.quota(t)
		return !ptr.Deref(quota.Spec.Cordoned, false) && quota.Status.Ending.Cpu().String() != "3"
	}
	p.Client = interceptor.NewClient(p.client.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			require.NoError(t, c.Create(ctx, object, options...))
			assert.False(t, grantsUncounted(), "created")
			return nil
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			require.NoError(t, c.Update(ctx, object, options...))
			assert.False(t, grantsUncounted(), "changed")
			return nil
		},
	})
	require.NoError(t, p.reconcile(t))
	assert.False(t, ptr.Deref(p.quota(t).Spec.Cordoned, false))
	assert.False(t, grantsUncounted())
	assert.Empty(t, p.quota(t).Status.Abandoned)
}

// A consumer fills a slice, deletes it, and creates another one.
func TestASliceGrantsNothingBeforeItsQuotaCountsAbandonedPods(t *testing.T) {
	p := newProvider(t)
	recorder := events.NewFakeRecorder(10)
	p.Events = recorder
	require.NoError(t, p.client.Delete(t.Context(), p.quota(t)))
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop-rome", Labels: map[string]string{liqocorev1beta1.RemoteClusterIDLabel: "rome"}}}
	require.NoError(t, p.client.Create(t.Context(), shop))
	shadow := abandonedPod()
	require.NoError(t, p.client.Create(t.Context(), shadow))
	grantsUncounted := func(quota *offloadingv1beta1.Quota) bool {
		return !ptr.Deref(quota.Spec.Cordoned, false) && quota.Status.Abandoned.Cpu().String() != "3"
	}
	created := 0
	p.Client = interceptor.NewClient(p.client.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			quota, ok := object.(*offloadingv1beta1.Quota)
			require.True(t, ok)
			assert.False(t, grantsUncounted(quota), "a Quota is created without a status")
			created++
			return c.Create(ctx, object, options...)
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			assert.False(t, grantsUncounted(p.quota(t)))
			return c.Update(ctx, object, options...)
		},
	})
	require.NoError(t, p.reconcile(t))
	require.Equal(t, 1, created)
	assert.True(t, p.isGranted(t))
	assert.False(t, grantsUncounted(p.quota(t)))
	assert.Equal(t, abandonedMessage, resourcesCondition(&p.slice.Status).Message)
	assert.Contains(t, <-recorder.Events, "Warning EarlierPodsHoldResources The resources are granted. Pods of ResourceSlices that are gone take a part")

	require.NoError(t, p.client.Delete(t.Context(), shadow))
	require.NoError(t, p.reconcile(t))
	assert.Empty(t, p.quota(t).Status.Abandoned)
	assert.Equal(t, grantedMessage, resourcesCondition(&p.slice.Status).Message)
	assert.Empty(t, recorder.Events)
}

func TestASliceIsToldWhenAbandonedPodsBeginAndCeaseToCount(t *testing.T) {
	with := func(cpu string) *offloadingv1beta1.Quota {
		quota := &offloadingv1beta1.Quota{}
		if cpu != "" {
			quota.Status.Abandoned = list(map[corev1.ResourceName]string{"cpu": cpu})
		}
		return quota
	}
	for name, tc := range map[string]struct {
		before, after string
		want          bool
	}{
		"they begin": {"", "3", true}, "they cease": {"3", "", true}, "fewer": {"3", "1", false}, "none": {"", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, startsOrEndsAbandoned(event.UpdateEvent{ObjectOld: with(tc.before), ObjectNew: with(tc.after)}))
		})
	}
}
