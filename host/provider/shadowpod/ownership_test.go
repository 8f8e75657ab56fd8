package shadowpod

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
	"github.com/longshore-dev/longshore/host/forge/provider"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

// ownedShadowPod returns a ShadowPod as a consumer creates it.
func ownedShadowPod(changes ...func(*offloadingv1beta1.ShadowPod)) *offloadingv1beta1.ShadowPod {
	s := shadow(func(s *offloadingv1beta1.ShadowPod) {
		s.Labels[offloadingv1beta1.DestinationLabel], s.Labels[offloadingv1beta1.NodeNameLabel] = "milan", "milan-1"
		s.Annotations[remote.LocalPodUIDAnnotation] = "local-1"
		s.Status.Phase = corev1.PodRunning
	})
	for _, change := range changes {
		change(s)
	}
	return s
}

// ownershipKeys remove or change what the consumer finds its pods by.
var ownershipKeys = map[string]func(*corev1.Pod){
	"origin":        func(p *corev1.Pod) { delete(p.Labels, offloadingv1beta1.OriginLabel) },
	"destination":   func(p *corev1.Pod) { p.Labels[offloadingv1beta1.DestinationLabel] = "oslo" },
	"node name":     func(p *corev1.Pod) { delete(p.Labels, offloadingv1beta1.NodeNameLabel) },
	"managed by":    func(p *corev1.Pod) { delete(p.Labels, offloadingv1beta1.ManagedByLabel) },
	"local pod UID": func(p *corev1.Pod) { delete(p.Annotations, remote.LocalPodUIDAnnotation) },
	"all metadata":  func(p *corev1.Pod) { p.Labels, p.Annotations = nil, nil },
}

func TestOwnershipIsRestored(t *testing.T) {
	states := map[string]struct {
		shadow *offloadingv1beta1.ShadowPod
		pod    func(*offloadingv1beta1.ShadowPod) *corev1.Pod
		writes []string
	}{
		"running":                      {shadow: ownedShadowPod(), pod: func(s *offloadingv1beta1.ShadowPod) *corev1.Pod { return ownPod(s, corev1.PodRunning, 0) }, writes: []string{"patch pod"}},
		"being deleted":                {shadow: ownedShadowPod(), pod: func(s *offloadingv1beta1.ShadowPod) *corev1.Pod { return terminatingPod(s, corev1.PodRunning, noon) }, writes: []string{"patch pod"}},
		"failed because of a deletion": {shadow: ownedShadowPod(), pod: func(s *offloadingv1beta1.ShadowPod) *corev1.Pod { return terminatingPod(s, corev1.PodFailed, noon) }, writes: []string{"patch pod"}},
		"finished": {
			shadow: ownedShadowPod(func(s *offloadingv1beta1.ShadowPod) { s.Status.Phase = corev1.PodSucceeded }),
			pod:    func(s *offloadingv1beta1.ShadowPod) *corev1.Pod { return ownPod(s, corev1.PodSucceeded, 0) }, writes: []string{"patch pod"},
		},
		"the ShadowPod is being deleted": {
			shadow: ownedShadowPod(func(s *offloadingv1beta1.ShadowPod) {
				s.DeletionTimestamp, s.Finalizers = deletedShadowPod().DeletionTimestamp, deletedShadowPod().Finalizers
			}),
			pod: func(s *offloadingv1beta1.ShadowPod) *corev1.Pod { return terminatingPod(s, corev1.PodRunning, noon) }, writes: []string{"patch pod"},
		},
	}
	for name, tc := range states {
		for key, change := range ownershipKeys {
			t.Run(name+": "+key, func(t *testing.T) {
				pod := tc.pod(tc.shadow)
				change(pod)
				out := state{shadow: tc.shadow, pod: pod}.reconcile(t)
				require.NoError(t, out.err)
				assert.Equal(t, tc.writes, out.writes)
				require.NotNil(t, out.pod)
				want := ownershipOf(provider.Pod(tc.shadow))
				assert.Subset(t, out.pod.Labels, want.Labels)
				assert.Subset(t, out.pod.Annotations, want.Annotations)
			})
		}
	}
}

func TestPodWithoutLabelIsFoundByOwner(t *testing.T) {
	// The cache selects pods by the label.
	s := ownedShadowPod()
	pod := ownPod(s, corev1.PodRunning, 0)
	delete(pod.Labels, offloadingv1beta1.ManagedByLabel)
	out := state{shadow: s, pod: pod}.withoutCachedPods().reconcile(t)
	require.NoError(t, out.err)
	assert.Equal(t, []string{"create pod", "patch pod"}, out.writes)
	assert.Equal(t, offloadingv1beta1.ManagedByShadowPod, out.pod.Labels[offloadingv1beta1.ManagedByLabel])

	stale := ownPod(earlierShadowPod(s), corev1.PodRunning, 0)
	delete(stale.Labels, offloadingv1beta1.ManagedByLabel)
	out = state{shadow: s, pod: stale}.withoutCachedPods().reconcile(t)
	require.NoError(t, out.err)
	assert.Equal(t, []string{"create pod"}, out.writes)
	assert.Equal(t, creationRetry, out.result.RequeueAfter, "no second pod runs")
}

func TestMetadataConflictIsRevertedWithGrowingPauses(t *testing.T) {
	s := ownedShadowPod()
	writes := 0
	c := fakeclient.Builder(s, ownPod(s, corev1.PodRunning, 0)).WithInterceptorFuncs(interceptor.Funcs{Patch: countPatches(&writes)}).Build()
	clock := testclock.NewFakePassiveClock(noon)
	r := &Reconciler{Client: c, APIReader: c, Events: events.NewFakeRecorder(100), Clock: clock}
	key := client.ObjectKeyFromObject(s)
	removeLabel := func() ctrl.Result {
		pod := &corev1.Pod{}
		require.NoError(t, c.Get(t.Context(), key, pod))
		delete(pod.Labels, offloadingv1beta1.OriginLabel)
		require.NoError(t, c.Update(t.Context(), pod))
		result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
		require.NoError(t, err)
		return result
	}
	assert.Zero(t, removeLabel().RequeueAfter)
	require.Equal(t, 1, writes)
	var pauses []time.Duration
	for range 12 {
		pause := removeLabel().RequeueAfter
		pauses = append(pauses, pause)
		clock.SetTime(clock.Now().Add(pause))
		removeLabel()
	}
	assert.Equal(t, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}, pauses[:3])
	assert.Equal(t, longestPause, pauses[11])
	require.Equal(t, 13, writes)

	// A change by the consumer is not delayed.
	current := &offloadingv1beta1.ShadowPod{}
	require.NoError(t, c.Get(t.Context(), key, current))
	current.Labels["new"] = "x"
	require.NoError(t, c.Update(t.Context(), current))
	removeLabel()
	assert.Equal(t, 14, writes)

	// The pauses are reset after a while without conflict.
	clock.SetTime(clock.Now().Add(3 * longestPause))
	removeLabel()
	assert.Equal(t, 15, writes)
	clock.SetTime(clock.Now().Add(time.Second))
	removeLabel()
	assert.Equal(t, 16, writes)
}

// A change that was refused was not made, and is not what another writer reverts.
func TestAFailedChangeIsNoContest(t *testing.T) {
	s := ownedShadowPod()
	pod := ownPod(s, corev1.PodRunning, 0)
	delete(pod.Labels, offloadingv1beta1.OriginLabel)
	failing := error(apierrors.NewServiceUnavailable("down"))
	c := fakeclient.Builder(s, pod).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
			if failing != nil {
				return failing
			}
			return c.Patch(ctx, obj, p, opts...)
		},
	}).Build()
	r := &Reconciler{Client: c, APIReader: c, Events: events.NewFakeRecorder(100), Clock: testclock.NewFakePassiveClock(noon)}
	for range 3 {
		_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(s)})
		require.ErrorIs(t, err, failing)
	}
	failing = nil
	result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(s)})
	require.NoError(t, err)
	assert.Zero(t, result, "no pause")
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(s), pod))
	assert.Contains(t, pod.Labels, offloadingv1beta1.OriginLabel)
}

func TestPodChanged(t *testing.T) {
	pod := ownPod(ownedShadowPod(), corev1.PodRunning, 0)
	cases := map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"a label":       {func(p *corev1.Pod) { p.Labels = nil }, true},
		"an annotation": {func(p *corev1.Pod) { p.Annotations["x"] = "y" }, true},
		"the phase":     {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, true},
		"a condition":   {func(p *corev1.Pod) { p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady}} }, false},
		"what its kubelet has not given back": {func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: p.Spec.Containers[0].Name, Resources: &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("9Gi")}},
			}}
		}, true},
		"a container that starts": {func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: p.Spec.Containers[0].Name, Ready: true, Resources: &p.Spec.Containers[0].Resources}}
		}, false},
		"a managed field":        {func(p *corev1.Pod) { p.ManagedFields = managedByController(`{"f:metadata":{}}`) }, false},
		"a finalizer":            {func(p *corev1.Pod) { p.Finalizers = []string{"example.com/x"} }, false},
		"the deletion timestamp": {func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			after := pod.DeepCopy()
			tc.change(after)
			assert.Equal(t, tc.want, podChanged().Update(event.UpdateEvent{ObjectOld: pod, ObjectNew: after}))
		})
	}
}

func countPatches(writes *int) func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
	return func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
		*writes++
		return c.Patch(ctx, obj, p, opts...)
	}
}
