package shadowpod

import (
	"context"
	"strconv"
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
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme"
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
	pod := ForgePod(s)
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

// world is what one pass finds; faults are what the API server answers to a write, by
// its description up to the first space after the kind.
type world struct {
	shadow *offloadingv1beta1.ShadowPod
	pod    *corev1.Pod
	faults map[string]error
	// namespace is that of both; without it, the cache does not hold it.
	namespace *corev1.Namespace
	// live is the one object that the API server has, when the cache is out of date.
	live client.Object
	// blind: the cache holds no pods, but the API server does.
	blind bool
	// later is when a second pass is made, if any.
	later time.Duration
}

func (w world) withoutCachedPods() world {
	w.blind = true
	return w
}

func (w world) fail(out *outcome, write, details string) error {
	out.writes = append(out.writes, write+details)
	return w.faults[write]
}

func (w world) interceptor(out *outcome) interceptor.Funcs {
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if err := w.fail(out, "create "+kind(obj), ""); err != nil {
				return err
			}
			return c.Create(ctx, obj, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			if err := w.fail(out, "delete "+kind(obj), described(opts)); err != nil {
				return err
			}
			return c.Delete(ctx, obj, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
			if err := w.fail(out, "patch "+kind(obj), ""); err != nil {
				return err
			}
			return c.Patch(ctx, obj, p, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if err := w.fail(out, "patch "+kind(obj)+" "+sub, ""); err != nil {
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

// described prints what a deletion asks for.
func described(opts []client.DeleteOption) string {
	var all client.DeleteOptions
	all.ApplyOptions(opts)
	text := ""
	if all.Preconditions != nil && all.Preconditions.UID != nil {
		text += " uid=" + string(*all.Preconditions.UID)
	}
	if all.GracePeriodSeconds != nil {
		text += " grace=" + strconv.FormatInt(*all.GracePeriodSeconds, 10)
	}
	return text
}

// pass makes one pass over real semantics of the fake API server, recording writes.
func (w world) pass(t *testing.T) outcome {
	t.Helper()
	built, err := scheme.New()
	require.NoError(t, err)
	var out outcome
	b := fake.NewClientBuilder().WithScheme(built).WithStatusSubresource(&offloadingv1beta1.ShadowPod{}).WithInterceptorFuncs(w.interceptor(&out))
	if w.shadow != nil {
		b = b.WithObjects(w.shadow)
	}
	if w.pod != nil {
		b = b.WithObjects(w.pod)
	}
	if w.namespace != nil {
		b = b.WithObjects(w.namespace)
	}
	c := b.WithReturnManagedFields().Build()
	var reader client.Reader = c
	if w.live != nil {
		reader = fake.NewClientBuilder().WithScheme(built).WithObjects(w.live).Build()
	}
	recorder := events.NewFakeRecorder(10)
	clock := testclock.NewFakePassiveClock(noon)
	r := &Reconciler{Client: c, APIReader: reader, Events: recorder, Clock: clock}
	if w.blind {
		r.Client = interceptor.NewClient(c, interceptor.Funcs{Get: hidePods})
	}
	key := client.ObjectKey{Namespace: "shop-rome", Name: "web"}
	out.result, out.err = r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
	if w.later > 0 {
		require.NoError(t, out.err)
		clock.SetTime(noon.Add(w.later))
		out.result, out.err = r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
	}
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

func TestAMissingPodIsCreatedAsTheShadowPodSays(t *testing.T) {
	out := world{shadow: shadow(nil)}.pass(t)
	require.NoError(t, out.err)
	require.NotNil(t, out.pod)
	assert.Equal(t, "web:1", out.pod.Spec.Containers[0].Image)
	assert.Equal(t, map[string]string{"app": "web", "offloading.liqo.io/origin": "rome", "liqo.io/managed-by": "shadowpod"}, out.pod.Labels)
	assert.Equal(t, map[string]string{"note": "kept", "longshore.dev/supports": "deletion-grace-period"}, out.pod.Annotations)
	assert.True(t, Owns(out.shadow, out.pod))
	assert.Equal(t, []string{"create pod"}, out.writes, "one request, no event")
	assert.Empty(t, out.events)
}

func running() *offloadingv1beta1.ShadowPod {
	return shadow(func(s *offloadingv1beta1.ShadowPod) { s.Status.Phase = corev1.PodRunning })
}

// leaving is a pod that was deleted ten seconds ago with half a minute of grace, and whose
// container ended at a time: its kubelet says so before the pod is gone.
func leaving(s *offloadingv1beta1.ShadowPod, phase corev1.PodPhase, ended time.Time) *corev1.Pod {
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

// existingPods are what the reconciler may find.
var existingPods = map[string]struct {
	shadow *offloadingv1beta1.ShadowPod
	pod    func(*offloadingv1beta1.ShadowPod) *corev1.Pod
	writes []string
	phase  corev1.PodPhase
	event  string
	later  time.Duration
}{
	"a running pod's phase is reported": {
		pod:    func(s *offloadingv1beta1.ShadowPod) *corev1.Pod { return ownPod(s, corev1.PodRunning, 0) },
		writes: []string{"patch shadowpod status"}, phase: corev1.PodRunning,
	},
	"a phase that is known is not written again": {
		shadow: shadow(func(s *offloadingv1beta1.ShadowPod) { s.Status.Phase = corev1.PodRunning }),
		pod:    func(s *offloadingv1beta1.ShadowPod) *corev1.Pod { return ownPod(s, corev1.PodRunning, 0) },
		phase:  corev1.PodRunning,
	},
	"a pod that has just become pending is waited for": {
		pod:   func(s *offloadingv1beta1.ShadowPod) *corev1.Pod { return ownPod(s, corev1.PodPending, time.Second) },
		phase: corev1.PodUnknown, later: DefaultPendingDelay - time.Second,
	},
	"a pod that stays pending is reported": {
		pod:    func(s *offloadingv1beta1.ShadowPod) *corev1.Pod { return ownPod(s, corev1.PodPending, time.Minute) },
		writes: []string{"patch shadowpod status"}, phase: corev1.PodPending,
	},
	"labels that appear on the ShadowPod reach the pod": {
		pod: func(s *offloadingv1beta1.ShadowPod) *corev1.Pod {
			pod := ownPod(s, corev1.PodRunning, 0)
			delete(pod.Labels, "app")
			return pod
		},
		writes: []string{"patch pod", "patch shadowpod status"}, phase: corev1.PodRunning,
	},
	"a label that is no longer on the ShadowPod leaves the pod (T22)": {
		pod: func(s *offloadingv1beta1.ShadowPod) *corev1.Pod {
			pod := ownPod(s, corev1.PodRunning, 0)
			pod.Labels["old"], pod.Labels["theirs"] = "x", "y"
			pod.ManagedFields = managed(FieldManager, `{"f:metadata":{"f:labels":{".":{},"f:app":{},"f:old":{}}}}`)
			return pod
		},
		writes: []string{"patch pod", "patch shadowpod status"}, phase: corev1.PodRunning,
	},
	"a stranger's pod is never touched (T23)": {
		pod: func(*offloadingv1beta1.ShadowPod) *corev1.Pod {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop-rome"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
		},
		writes: []string{"patch shadowpod status"}, phase: corev1.PodUnknown, event: "another pod of this name exists", later: unmanagedRetry,
	},
	"the pod of an earlier ShadowPod of the same name is not adopted, and goes": {
		pod: func(s *offloadingv1beta1.ShadowPod) *corev1.Pod {
			earlier := s.DeepCopy()
			earlier.UID = "shadow-0"
			return ownPod(earlier, corev1.PodRunning, 0)
		},
		writes: []string{"delete pod uid=pod-1"}, phase: corev1.PodUnknown, later: unmanagedRetry,
	},
	"one that goes already is waited for": {
		pod: func(s *offloadingv1beta1.ShadowPod) *corev1.Pod {
			earlier := s.DeepCopy()
			earlier.UID = "shadow-0"
			return leaving(earlier, corev1.PodRunning, noon)
		},
		phase: corev1.PodUnknown, later: unmanagedRetry,
	},
	"a pod that is evicted has failed for its node, not for the consumer": {
		shadow: running(),
		pod:    func(s *offloadingv1beta1.ShadowPod) *corev1.Pod { return leaving(s, corev1.PodFailed, noon) },
		phase:  corev1.PodRunning,
	},
	"nor has one whose containers obeyed": {
		shadow: running(),
		pod:    func(s *offloadingv1beta1.ShadowPod) *corev1.Pod { return leaving(s, corev1.PodSucceeded, noon) },
		phase:  corev1.PodRunning,
	},
	"nor has one whose node's clock is behind that of the API server": {
		shadow: running(),
		pod: func(s *offloadingv1beta1.ShadowPod) *corev1.Pod {
			return leaving(s, corev1.PodFailed, noon.Add(-time.Hour))
		},
		phase: corev1.PodRunning,
	},
	"a pod that had finished before somebody deleted it stays finished": {
		shadow: shadow(func(s *offloadingv1beta1.ShadowPod) { s.Status.Phase = corev1.PodSucceeded }),
		pod:    func(s *offloadingv1beta1.ShadowPod) *corev1.Pod { return leaving(s, corev1.PodSucceeded, noon) },
		phase:  corev1.PodSucceeded,
	},
	"a pod on its way out is otherwise reported as it is": {
		pod:    func(s *offloadingv1beta1.ShadowPod) *corev1.Pod { return leaving(s, corev1.PodRunning, noon) },
		writes: []string{"patch shadowpod status"}, phase: corev1.PodRunning,
	},
}

func TestReconcileOfAnExistingPod(t *testing.T) {
	for name, tc := range existingPods {
		t.Run(name, func(t *testing.T) {
			s := tc.shadow
			if s == nil {
				s = shadow(nil)
			}
			out := world{shadow: s, pod: tc.pod(s)}.pass(t)
			require.NoError(t, out.err)
			assert.Equal(t, tc.writes, out.writes)
			assert.Equal(t, tc.phase, out.shadow.Status.Phase)
			assert.Equal(t, tc.later, out.result.RequeueAfter)
			if tc.event == "" {
				assert.Empty(t, out.events)
				return
			}
			require.Len(t, out.events, 1)
			assert.Contains(t, out.events[0], tc.event)
		})
	}
}

// In a merge patch, a map that is null takes everything away.
func TestAChangeOfLabelsLeavesTheAnnotationsAloneAndViceVersa(t *testing.T) {
	s := running()
	pod := ownPod(s, corev1.PodRunning, 0)
	s.Labels["new"] = "x"
	out := world{shadow: s, pod: pod}.pass(t)
	require.NoError(t, out.err)
	assert.Equal(t, ForgePod(s).Labels, out.pod.Labels)
	assert.Equal(t, ForgePod(s).Annotations, out.pod.Annotations)

	s = running()
	pod = ownPod(s, corev1.PodRunning, 0)
	s.Annotations["new"] = "x"
	out = world{shadow: s, pod: pod}.pass(t)
	require.NoError(t, out.err)
	assert.Equal(t, ForgePod(s).Labels, out.pod.Labels)
	assert.Equal(t, ForgePod(s).Annotations, out.pod.Annotations)
}

func TestATerminalShadowPodNeverActsAgain(t *testing.T) {
	for _, phase := range []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed} {
		out := world{shadow: shadow(func(s *offloadingv1beta1.ShadowPod) { s.Status.Phase = phase })}.pass(t)
		require.NoError(t, out.err)
		assert.Nil(t, out.pod, "a %s pod is not run again", phase)
		assert.Empty(t, out.writes)
	}
}
