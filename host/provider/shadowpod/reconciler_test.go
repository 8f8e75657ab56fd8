package shadowpod

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	networkingv1beta1 "github.com/longshore-dev/longshore/host/apis/networking/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
	"github.com/longshore-dev/longshore/host/forge/provider"
	"github.com/longshore-dev/longshore/host/provider/metadata"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func shadow(change func(*offloadingv1beta1.ShadowPod)) *offloadingv1beta1.ShadowPod {
	s := &offloadingv1beta1.ShadowPod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: "shop-rome", UID: "shadow-1",
			Labels:      map[string]string{"app": "web", offloadingv1beta1.OriginLabel: "rome"},
			Annotations: map[string]string{"note": "kept"},
		},
		Spec:   offloadingv1beta1.ShadowPodSpec{Pod: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}}},
		Status: offloadingv1beta1.ShadowPodStatus{Phase: corev1.PodUnknown},
	}
	if change != nil {
		change(s)
	}
	return s
}

func ownPod(s *offloadingv1beta1.ShadowPod, phase corev1.PodPhase, age time.Duration) *corev1.Pod {
	pod := provider.Pod(s)
	pod.UID, pod.CreationTimestamp, pod.Status.Phase = "pod-1", metav1.NewTime(noon.Add(-age)), phase
	return pod
}

type outcome struct {
	pod    *corev1.Pod
	shadow *offloadingv1beta1.ShadowPod
	result ctrl.Result
	err    error
	events []string
	writes []string
}

// state is what the reconciler finds. faults are the errors of writes, by verb and kind.
type state struct {
	shadow *offloadingv1beta1.ShadowPod
	pod    *corev1.Pod
	faults map[string]error
	// namespace is in the cache if it is set.
	namespace *corev1.Namespace
	// configuration is that of the consumer, if it has one.
	configuration *networkingv1beta1.Configuration
	// live is the only object of the API server when the cache is stale.
	live client.Object
	// withoutPods hides the pods from the cache.
	withoutPods bool
}

func (s state) withoutCachedPods() state {
	s.withoutPods = true
	return s
}

func (s state) fail(out *outcome, write string) error {
	out.writes = append(out.writes, write)
	return s.faults[write]
}

func (s state) interceptor(out *outcome) interceptor.Funcs {
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if err := s.fail(out, "create "+kind(obj)); err != nil {
				return err
			}
			return c.Create(ctx, obj, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			if err := s.fail(out, "delete "+kind(obj)); err != nil {
				return err
			}
			return c.Delete(ctx, obj, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
			if err := s.fail(out, "patch "+kind(obj)); err != nil {
				return err
			}
			return c.Patch(ctx, obj, p, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if err := s.fail(out, "patch "+kind(obj)+" "+sub); err != nil {
				return err
			}
			return c.SubResource(sub).Patch(ctx, obj, p, opts...)
		},
	}
}

func hidePods(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if _, ok := obj.(*corev1.Pod); ok {
		return apierrors.NewNotFound(corev1.Resource("pods"), key.Name)
	}
	return c.Get(ctx, key, obj, opts...)
}

func kind(obj client.Object) string {
	if _, ok := obj.(*corev1.Pod); ok {
		return "pod"
	}
	return "shadowpod"
}

// reconcile reconciles the ShadowPod once, and records the writes.
func (s state) reconcile(t *testing.T) outcome {
	t.Helper()
	var out outcome
	c := fakeclient.Builder(s.shadow, s.pod, s.namespace, s.configuration).WithInterceptorFuncs(s.interceptor(&out)).WithReturnManagedFields().Build()
	var reader client.Reader = c
	if s.live != nil {
		reader = fakeclient.Builder(s.live).Build()
	}
	recorder := events.NewFakeRecorder(10)
	r := &Reconciler{Client: c, APIReader: reader, Events: recorder, Clock: testclock.NewFakePassiveClock(noon)}
	if s.withoutPods {
		r.Client = interceptor.NewClient(c, interceptor.Funcs{Get: hidePods})
	}
	key := client.ObjectKey{Namespace: "shop-rome", Name: "web"}
	out.result, out.err = r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
	out.pod, out.shadow = &corev1.Pod{}, &offloadingv1beta1.ShadowPod{}
	if err := c.Get(t.Context(), key, out.pod); apierrors.IsNotFound(err) {
		out.pod = nil
	}
	if err := c.Get(t.Context(), key, out.shadow); apierrors.IsNotFound(err) {
		out.shadow = nil
	}
	close(recorder.Events)
	for e := range recorder.Events {
		out.events = append(out.events, e)
	}
	return out
}

func TestMissingPodIsCreated(t *testing.T) {
	out := state{shadow: shadow(nil)}.reconcile(t)
	require.NoError(t, out.err)
	require.NotNil(t, out.pod)
	assert.Equal(t, "web:1", out.pod.Spec.Containers[0].Image)
	assert.Equal(t, map[string]string{"app": "web", "offloading.liqo.io/origin": "rome", "liqo.io/managed-by": "shadowpod"}, out.pod.Labels)
	assert.Equal(t, map[string]string{"note": "kept", "longshore.dev/applied-fields": "image/web=1ek66hy"}, out.pod.Annotations)
	assert.True(t, Owns(out.shadow, out.pod))
	assert.Equal(t, []string{"create pod"}, out.writes, "one request, no event")
	assert.Empty(t, out.events)
}

func running() *offloadingv1beta1.ShadowPod {
	return shadow(func(s *offloadingv1beta1.ShadowPod) { s.Status.Phase = corev1.PodRunning })
}

// terminatingPod returns a pod that was deleted ten seconds ago with 30 s of grace, and whose
// container ended at a time.
func terminatingPod(s *offloadingv1beta1.ShadowPod, phase corev1.PodPhase, ended time.Time) *corev1.Pod {
	pod := ownPod(s, phase, 2*time.Hour)
	deadline := metav1.NewTime(noon.Add(20 * time.Second))
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &deadline, ptr.To[int64](30)
	pod.Finalizers = []string{"example.com/kept"}
	if phase != corev1.PodRunning {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(ended)},
		}}}
	}
	return pod
}

// managedByController returns managed fields of this controller.
func managedByController(fields string) []metav1.ManagedFieldsEntry {
	entry := metav1.ManagedFieldsEntry{
		Manager: FieldManager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{},
	}
	entry.FieldsV1.SetRawString(fields)
	return []metav1.ManagedFieldsEntry{entry}
}

func earlierShadowPod(s *offloadingv1beta1.ShadowPod) *offloadingv1beta1.ShadowPod {
	earlier := s.DeepCopy()
	earlier.UID = "shadow-0"
	return earlier
}

var existingPods = map[string]struct {
	shadow *offloadingv1beta1.ShadowPod
	pod    func(*offloadingv1beta1.ShadowPod) *corev1.Pod
	writes []string
	phase  corev1.PodPhase
	reason string
	later  time.Duration
}{
	"a running pod costs no request": {
		pod:   func(s *offloadingv1beta1.ShadowPod) *corev1.Pod { return ownPod(s, corev1.PodRunning, 0) },
		phase: corev1.PodUnknown,
	},
	"a pending pod costs no request": {
		pod:   func(s *offloadingv1beta1.ShadowPod) *corev1.Pod { return ownPod(s, corev1.PodPending, time.Minute) },
		phase: corev1.PodUnknown,
	},
	"a terminal phase is reported": {
		pod:    func(s *offloadingv1beta1.ShadowPod) *corev1.Pod { return ownPod(s, corev1.PodSucceeded, 0) },
		writes: []string{"patch shadowpod status"}, phase: corev1.PodSucceeded,
	},
	"a new label of the ShadowPod is added to the pod": {
		pod: func(s *offloadingv1beta1.ShadowPod) *corev1.Pod {
			pod := ownPod(s, corev1.PodRunning, 0)
			delete(pod.Labels, "app")
			return pod
		},
		writes: []string{"patch pod"}, phase: corev1.PodUnknown,
	},
	"a label that the ShadowPod lost is removed from the pod (T22)": {
		pod: func(s *offloadingv1beta1.ShadowPod) *corev1.Pod {
			pod := ownPod(s, corev1.PodRunning, 0)
			pod.Labels["old"], pod.Labels["theirs"] = "x", "y"
			pod.ManagedFields = managedByController(`{"f:metadata":{"f:labels":{".":{},"f:app":{},"f:old":{}}}}`)
			return pod
		},
		writes: []string{"patch pod"}, phase: corev1.PodUnknown,
	},
	"an unmanaged pod is never changed (T23)": {
		pod: func(*offloadingv1beta1.ShadowPod) *corev1.Pod {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop-rome"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
		},
		writes: []string{"patch shadowpod status"}, phase: corev1.PodUnknown, reason: offloadingv1beta1.FailedCreatePodReason, later: creationRetry,
	},
	"the pod of an earlier ShadowPod is left to the garbage collector": {
		pod: func(s *offloadingv1beta1.ShadowPod) *corev1.Pod {
			return ownPod(earlierShadowPod(s), corev1.PodRunning, 0)
		},
		phase: corev1.PodUnknown, later: creationRetry,
	},
	"an evicted pod that failed does not end the ShadowPod": {
		shadow: running(),
		pod:    func(s *offloadingv1beta1.ShadowPod) *corev1.Pod { return terminatingPod(s, corev1.PodFailed, noon) },
		phase:  corev1.PodRunning,
	},
	"an evicted pod that succeeded does not end the ShadowPod": {
		shadow: running(),
		pod:    func(s *offloadingv1beta1.ShadowPod) *corev1.Pod { return terminatingPod(s, corev1.PodSucceeded, noon) },
		phase:  corev1.PodRunning,
	},
	"the clock of the node is behind": {
		shadow: running(),
		pod: func(s *offloadingv1beta1.ShadowPod) *corev1.Pod {
			return terminatingPod(s, corev1.PodFailed, noon.Add(-time.Hour))
		},
		phase: corev1.PodRunning,
	},
	"a pod that finished before its deletion stays finished": {
		shadow: shadow(func(s *offloadingv1beta1.ShadowPod) { s.Status.Phase = corev1.PodSucceeded }),
		pod:    func(s *offloadingv1beta1.ShadowPod) *corev1.Pod { return terminatingPod(s, corev1.PodSucceeded, noon) },
		phase:  corev1.PodSucceeded,
	},
	"the pod of a deleted ShadowPod is left to the garbage collector": {
		shadow: deletedShadowPod(),
		pod:    func(s *offloadingv1beta1.ShadowPod) *corev1.Pod { return ownPod(s, corev1.PodRunning, 0) },
		phase:  corev1.PodUnknown,
	},
}

// deletedShadowPod returns a ShadowPod that is being deleted.
func deletedShadowPod() *offloadingv1beta1.ShadowPod {
	return shadow(func(s *offloadingv1beta1.ShadowPod) {
		at := metav1.NewTime(noon)
		s.DeletionTimestamp, s.Finalizers = &at, []string{metav1.FinalizerDeleteDependents}
	})
}

func TestExistingPod(t *testing.T) {
	for name, tc := range existingPods {
		t.Run(name, func(t *testing.T) {
			s := tc.shadow
			if s == nil {
				s = shadow(nil)
			}
			out := state{shadow: s, pod: tc.pod(s)}.reconcile(t)
			require.NoError(t, out.err)
			assert.Equal(t, tc.writes, out.writes)
			assert.Equal(t, tc.phase, out.shadow.Status.Phase)
			assert.Equal(t, tc.reason, out.shadow.Status.Reason)
			assert.Equal(t, tc.later, out.result.RequeueAfter)
			assert.Equal(t, tc.reason != "", len(out.events) == 1)
		})
	}
}

// A merge patch with null for a map would remove all keys.
func TestChangesOfLabelsAndAnnotationsAreIndependent(t *testing.T) {
	s := running()
	pod := ownPod(s, corev1.PodRunning, 0)
	s.Labels["new"] = "x"
	out := state{shadow: s, pod: pod}.reconcile(t)
	require.NoError(t, out.err)
	assert.Equal(t, provider.Pod(s).Labels, out.pod.Labels)
	assert.Equal(t, provider.Pod(s).Annotations, out.pod.Annotations)

	s = running()
	pod = ownPod(s, corev1.PodRunning, 0)
	s.Annotations["new"] = "x"
	out = state{shadow: s, pod: pod}.reconcile(t)
	require.NoError(t, out.err)
	assert.Equal(t, provider.Pod(s).Labels, out.pod.Labels)
	assert.Equal(t, provider.Pod(s).Annotations, out.pod.Annotations)
}

// No pod is created for a ShadowPod that is terminal or being deleted.
func TestNoPodIsCreatedAgain(t *testing.T) {
	for name, s := range map[string]*offloadingv1beta1.ShadowPod{
		"succeeded": shadow(func(s *offloadingv1beta1.ShadowPod) { s.Status.Phase = corev1.PodSucceeded }),
		"failed":    shadow(func(s *offloadingv1beta1.ShadowPod) { s.Status.Phase = corev1.PodFailed }),
		"deleted":   deletedShadowPod(),
		"gone":      nil,
	} {
		t.Run(name, func(t *testing.T) {
			out := state{shadow: s}.reconcile(t)
			require.NoError(t, out.err)
			assert.Nil(t, out.pod)
			assert.Empty(t, out.writes)
		})
	}
}

// The watch of pods may be ahead of the watch of ShadowPods: a pod that was deleted with its ShadowPod
// does not run again.
func TestNoPodIsCreatedForAStaleShadowPod(t *testing.T) {
	cached := shadow(func(s *offloadingv1beta1.ShadowPod) { s.UID = "first" })
	change := func(f func(*offloadingv1beta1.ShadowPod)) client.Object {
		live := cached.DeepCopy()
		f(live)
		return live
	}
	for name, live := range map[string]client.Object{
		"gone": &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}},
		"being deleted": change(func(s *offloadingv1beta1.ShadowPod) {
			s.DeletionTimestamp, s.Finalizers = &metav1.Time{Time: noon}, []string{"example.com/kept"}
		}),
		"replaced": change(func(s *offloadingv1beta1.ShadowPod) { s.UID = "second" }),
		"terminal": change(func(s *offloadingv1beta1.ShadowPod) { s.Status.Phase = corev1.PodSucceeded }),
	} {
		t.Run(name, func(t *testing.T) {
			out := state{shadow: cached.DeepCopy(), live: live}.reconcile(t)
			require.NoError(t, out.err)
			assert.Nil(t, out.pod)
			assert.Empty(t, out.writes)
		})
	}
}

func TestAPodThatWasCreatedForAShadowPod(t *testing.T) {
	tests := map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"of a ShadowPod":                 {func(*corev1.Pod) {}, true},
		"without the managed-by label":   {func(p *corev1.Pod) { delete(p.Labels, offloadingv1beta1.ManagedByLabel) }, true},
		"without owner":                  {func(p *corev1.Pod) { p.OwnerReferences = nil }, false},
		"of another kind":                {func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "ReplicaSet" }, false},
		"of another API group":           {func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion = "example.com/v1" }, false},
		"of a ShadowPod of another name": {func(p *corev1.Pod) { p.OwnerReferences[0].Name = "db" }, false},
		"owned, but not controlled":      {func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil }, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pod := ownPod(shadow(nil), corev1.PodRunning, 0)
			tc.change(pod)
			assert.Equal(t, tc.want, metadata.WasCreatedFor(pod, offloadingv1beta1.ShadowPodGVK))
		})
	}
}
