package pod

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

// ownPeriod sets the grace period in a pod's spec.
func ownPeriod(seconds int64) podOption {
	return func(pod *corev1.Pod) { pod.Spec.TerminationGracePeriodSeconds = &seconds }
}

// deletedWith deletes a pod with a grace period.
func deletedWith(seconds int64) podOption {
	return func(pod *corev1.Pod) {
		at := metav1.NewTime(now.Add(time.Duration(seconds) * time.Second))
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &at, &seconds
	}
}

// terminating returns a local pod with a period of a minute that is deleted with another.
func terminating(seconds int64) *corev1.Pod {
	return localPod(ownPeriod(60), deletedWith(seconds))
}

// remoteWithMinute returns a remote pod with a grace period of a minute.
func remoteWithMinute(options ...podOption) *corev1.Pod {
	return remotePod(append([]podOption{ownPeriod(60)}, options...)...)
}

var (
	aborted = phase(corev1.PodFailed, offloadingv1beta1.OffloadingAbortedReason)
	// known is what is stored about a local pod that ran while this process did.
	known = memory{localUID: "local-1"}
)

// gracePeriodTests are decisions about one state of the two clusters.
var gracePeriodTests = map[string]struct {
	local  *corev1.Pod
	shadow *offloadingv1beta1.ShadowPod
	pod    *corev1.Pod
	memory memory
	want   string
}{
	"the pod's own period is the provider's business": {
		local: terminating(60), shadow: shadowPod(), pod: remoteWithMinute(), want: "delete ShadowPod, keep NothingReported",
	},
	"the default is a period of its own": {
		local: localPod(deletedWith(30)), shadow: shadowPod(), pod: remotePod(), want: "delete ShadowPod, keep NothingReported",
	},
	"the API server takes a negative period for one second": {
		local: localPod(ownPeriod(-7), deletedWith(1)), shadow: shadowPod(), pod: remotePod(ownPeriod(-7)), want: "delete ShadowPod, keep NothingReported",
	},
	"a policy gave the remote pod another period": {
		local: terminating(60), shadow: shadowPod(), pod: remotePod(ownPeriod(300)), want: "delete ShadowPod, keep NothingReported",
	},
	"a shorter period is sent after the deletion of the ShadowPod": {
		local: terminating(5), shadow: shadowPod(), pod: remoteWithMinute(), want: "delete ShadowPod, delete pod within 5s, keep NothingReported",
	},
	"a longer period is sent before it": {
		local: terminating(120), shadow: shadowPod(), pod: remoteWithMinute(), want: "delete pod within 120s, delete ShadowPod, keep NothingReported",
	},
	"no period leaves the kubelet one second": {
		local: terminating(0), shadow: shadowPod(), pod: remoteWithMinute(), want: "delete ShadowPod, delete pod within 1s, keep NothingReported",
	},
	"a remote pod without a period of its own needs none": {
		local: terminating(0), shadow: shadowPod(), pod: remotePod(ownPeriod(0)), want: "delete ShadowPod, keep NothingReported",
	},
	"a remote pod that has finished is deleted at any time": {
		local: terminating(5), shadow: shadowPod(), pod: remoteWithMinute(phase(corev1.PodSucceeded)), want: "delete ShadowPod, status Succeeded",
	},
	"the status is mirrored meanwhile": {
		local: terminating(5), shadow: shadowPod(), pod: remoteWithMinute(running), want: "delete ShadowPod, delete pod within 5s, status Running",
	},
	"a shorter period after the ShadowPod is gone": {
		local: terminating(5), pod: remoteWithMinute(deletedWith(60)), want: "delete pod within 5s, keep NothingReported",
	},
	"a shorter period before the garbage collector has begun": {
		local: terminating(5), pod: remoteWithMinute(), want: "delete pod within 5s, keep NothingReported",
	},
	"a shorter period while another finalizer holds the ShadowPod": {
		local: terminating(5), shadow: shadowPod(shadowDeleting), pod: remoteWithMinute(deletedWith(60)), want: "delete pod within 5s, keep NothingReported",
	},
	"the remote pod already ends with that period": {
		local: terminating(5), pod: remoteWithMinute(deletedWith(5)), want: "keep NothingReported",
	},
	"the remote pod ends earlier": {
		local: terminating(5), pod: remoteWithMinute(deletedWith(2)), want: "keep NothingReported",
	},
	"no period is extended": {
		local: terminating(120), pod: remoteWithMinute(deletedWith(60)), want: "keep NothingReported",
	},
	"an ended pod gets no shorter period": {
		local: terminating(5), pod: remoteWithMinute(phase(corev1.PodFailed), deletedWith(60)), want: "status Failed",
	},
	"a remote pod of an earlier local pod is not this pod's (T25)": {
		local: localPod(uid("local-2"), ownPeriod(60), deletedWith(5)), shadow: shadowPod(shadowAnnotation(remote.LocalPodUIDAnnotation, "local-2")),
		pod: remoteWithMinute(deletedWith(60)), memory: memory{localUID: "local-2"}, want: "delete ShadowPod, keep NoRemotePod",
	},
	"deleted by force": {
		shadow: shadowPod(), pod: remoteWithMinute(), memory: known, want: "delete ShadowPod, delete pod within 1s, keep LocalPodGone",
	},
	"deleted by force before the remote pod is seen": {
		shadow: shadowPod(), memory: known, want: "delete ShadowPod, keep LocalPodGone",
	},
	"deleted by force while the remote pod ends": {
		pod: remoteWithMinute(deletedWith(60)), memory: known, want: "delete pod within 1s, keep LocalPodGone",
	},
	"deleted by force while the remote pod ends within a second": {
		pod: remoteWithMinute(deletedWith(1)), memory: known, want: "keep LocalPodGone",
	},
	"deleted by force with a remote pod that has finished": {
		shadow: shadowPod(), pod: remoteWithMinute(phase(corev1.PodSucceeded)), memory: known, want: "delete ShadowPod, keep LocalPodGone",
	},
	"deleted before this process started": {
		shadow: shadowPod(), pod: remoteWithMinute(), want: "delete ShadowPod, keep LocalPodGone",
	},
	"deleted by this process, and the remote pod appears too late": {
		pod: remoteWithMinute(deletedWith(60)), memory: memory{localUID: "local-1", localDeletedAt: now}, want: "keep LocalPodGone",
	},
	"deleted, and the remote pod records no local pod": {
		shadow: shadowPod(), pod: remoteWithMinute(func(p *corev1.Pod) { p.Annotations = nil }), want: "delete ShadowPod, keep LocalPodGone",
	},
	"deleted by force and created again (T25)": {
		local: localPod(uid("local-2")), shadow: shadowPod(), pod: remoteWithMinute(), memory: known,
		want: "delete ShadowPod, delete pod within 1s, keep StaleShadowPod",
	},
	"deleted by force and created again, the ShadowPod is gone (T25)": {
		local: localPod(uid("local-2")), pod: remoteWithMinute(deletedWith(60)), memory: known, want: "delete pod within 1s, wait StaleRemotePod",
	},
	"created again, and how the earlier pod was deleted is unknown (T25)": {
		local: localPod(uid("local-2")), shadow: shadowPod(), pod: remoteWithMinute(), memory: memory{localUID: "local-2"}, want: "delete ShadowPod, keep StaleShadowPod",
	},
	"aborted: the pod's own period": {
		local: localPod(aborted), shadow: shadowPod(), pod: remoteWithMinute(), want: "delete ShadowPod, keep PodAborted",
	},
}

func TestGracePeriod(t *testing.T) {
	for name, tc := range gracePeriodTests {
		t.Run(name, func(t *testing.T) {
			in := input(tc.local, tc.shadow, tc.pod)
			if tc.memory != (memory{}) {
				in.Memory = tc.memory
			}
			actions, err := decide(t.Context(), definition(&policies{}), in)
			require.NoError(t, err)
			assert.Equal(t, tc.want, summary(actions))
		})
	}
}

// steps are decisions about one pod, one after the other.
type steps []struct {
	after  time.Duration
	local  *corev1.Pod
	shadow *offloadingv1beta1.ShadowPod
	pod    *corev1.Pod
	want   string
}

var deletionTests = map[string]steps{
	"a pod is deleted": {
		{local: terminating(60), shadow: shadowPod(), pod: remoteWithMinute(), want: "delete ShadowPod, keep NothingReported"},
		{local: terminating(60), pod: remoteWithMinute(deletedWith(60)), after: time.Minute, want: "keep NothingReported"},
		{local: terminating(60), want: "status Failed, delete local pod"},
		{local: terminating(0), after: time.Second, want: "wait LocalPodDeletion"},
		{local: terminating(0), after: localDeletionRetry, want: "status Failed, delete local pod"},
	},
	"a pod is deleted with ever shorter periods, and by force": {
		{local: terminating(60), shadow: shadowPod(), pod: remoteWithMinute(), want: "delete ShadowPod, keep NothingReported"},
		{local: terminating(5), pod: remoteWithMinute(deletedWith(60)), want: "delete pod within 5s, keep NothingReported"},
		{local: terminating(5), pod: remoteWithMinute(deletedWith(5)), want: "keep NothingReported"},
		{local: terminating(2), pod: remoteWithMinute(deletedWith(5)), want: "delete pod within 2s, keep NothingReported"},
		{pod: remoteWithMinute(deletedWith(2)), want: "delete pod within 1s, keep LocalPodGone"},
		{pod: remoteWithMinute(deletedWith(1)), want: "keep LocalPodGone"},
	},
	"a pod is deleted by force and created again": {
		{local: localPod(ownPeriod(60)), shadow: shadowPod(), pod: remoteWithMinute(running), want: "status Running, keep MetadataUpToDate"},
		{local: localPod(uid("local-2")), shadow: shadowPod(), pod: remoteWithMinute(), want: "delete ShadowPod, delete pod within 1s, keep StaleShadowPod"},
		{local: localPod(uid("local-2")), pod: remoteWithMinute(deletedWith(1)), want: "wait StaleRemotePod"},
		{local: localPod(uid("local-2")), want: "first serviceaccount, create, wait StatusForLabel"},
	},
	"the remote pod appears after the deletion of the ShadowPod": {
		{local: terminating(5), shadow: shadowPod(), want: "delete ShadowPod, keep NoRemotePod"},
		{local: terminating(5), after: time.Second, want: "wait RemotePodCreation"},
		{local: terminating(5), pod: remoteWithMinute(), after: time.Second, want: "delete pod within 5s, keep NothingReported"},
		{local: terminating(5), pod: remoteWithMinute(deletedWith(5)), want: "keep NothingReported"},
		{local: terminating(5), after: time.Second, want: "status Failed, delete local pod"},
	},
	"the remote pod never appears": {
		{local: terminating(60), shadow: shadowPod(), want: "delete ShadowPod, keep NoRemotePod"},
		{local: terminating(60), after: creationWindow - 1, want: "wait RemotePodCreation"},
		{local: terminating(60), after: 1, want: "status Failed, delete local pod"},
	},
	"the provider replaces an evicted pod during the deletion": {
		{local: terminating(60), shadow: shadowPod(), pod: remoteWithMinute(deletedWith(60)), want: "delete ShadowPod, keep NothingReported"},
		{local: terminating(60), want: "wait RemotePodCreation"},
		{local: terminating(60), pod: remoteWithMinute(), want: "keep NothingReported"},
		{local: terminating(60), after: time.Minute, want: "status Failed, delete local pod"},
	},
	"a finalizer holds the ShadowPod": {
		{local: terminating(60), shadow: shadowPod(), pod: remoteWithMinute(), want: "delete ShadowPod, keep NothingReported"},
		{local: terminating(60), shadow: shadowPod(shadowDeleting), pod: remoteWithMinute(), after: time.Hour, want: "keep NothingReported"},
		{local: terminating(60), shadow: shadowPod(shadowDeleting), want: "keep NoRemotePod"},
		{local: terminating(60), want: "status Failed, delete local pod"},
	},
}

func TestDeletion(t *testing.T) {
	for name, steps := range deletionTests {
		t.Run(name, func(t *testing.T) {
			d := definition(&policies{})
			at, stored := now, any(memory{localUID: "local-1", sourceHash: d.hashSource(observe(input(localPod(), nil, nil))), metadataHash: hashMetadata(shadowPod().Labels, shadowPod().Annotations)})
			for i, step := range steps {
				in := input(step.local, step.shadow, step.pod)
				at = at.Add(step.after)
				in.Facts.Now, in.Memory = at, stored
				actions, err := decide(t.Context(), d, in)
				require.NoError(t, err)
				assert.Equal(t, step.want, summary(actions), "step %d", i)
				stored = remember(in, actions).Memory
			}
		})
	}
}

// Which local pod a deletion by force removes is stored with the first decision about it, and
// after a restart with the first status.
func TestLocalPodIsStored(t *testing.T) {
	for name, in := range map[string]engine.Input{
		"a new pod":       input(localPod(), nil, nil),
		"after a restart": input(localPod(), shadowPod(), remotePod(running)),
	} {
		t.Run(name, func(t *testing.T) {
			actions, err := decide(t.Context(), definition(&policies{}), in)
			require.NoError(t, err)
			assert.EqualValues(t, "local-1", remember(in, actions).Memory.(memory).localUID)
		})
	}
}

func TestNewPodOfTheSameNameHasNoRestarts(t *testing.T) {
	shadow := shadowPod(shadowAnnotation(remote.LocalPodUIDAnnotation, "local-2"))
	pod := remotePod(running, container("web", 0), annotation(remote.LocalPodUIDAnnotation, "local-2"))
	in := input(localPod(uid("local-2")), shadow, pod)
	in.Memory = memory{localUID: "local-1", remoteUID: "remote-0", restarts: 3}
	actions, err := decide(t.Context(), definition(&policies{}), in)
	require.NoError(t, err)
	status := patchedStatus(actions)
	require.NotNil(t, status)
	assert.Zero(t, status.ContainerStatuses[0].RestartCount)
}

func TestOwnGracePeriod(t *testing.T) {
	for want, period := range map[int64]*int64{30: nil, 0: ptr.To[int64](0), 1: ptr.To[int64](-1), 7: ptr.To[int64](7)} {
		assert.Equal(t, want, ownGracePeriod(&corev1.PodSpec{TerminationGracePeriodSeconds: period}))
	}
}

// A remote pod that loses the virtual kubelet's labels is not watched, and may run until its grace period
// ends. A StatefulSet would start its pod a second time if the local pod were deleted now.
func TestALocalPodStaysWhileItsRemotePodRunsWithoutLabels(t *testing.T) {
	in := input(terminating(60), nil, nil)
	in.IsDependentLost, in.Memory = true, known
	actions, err := decide(t.Context(), definition(&policies{}), in)
	require.NoError(t, err)
	require.Len(t, actions, 1)
	ask, ok := actions[0].(engine.AskDependent)
	require.True(t, ok, "%T", actions[0])
	assert.Equal(t, "status Failed, delete local pod", summary(ask.Gone))
	assert.Equal(t, "event RemotePodUnlabeled, wait RemotePodEnd", summary(ask.Exists))

	unlabeled := func(options ...podOption) *corev1.Pod {
		pod := remoteWithMinute(append([]podOption{deletedWith(60)}, options...)...)
		pod.Labels = nil
		return pod
	}
	unrecorded := func(pod *corev1.Pod) { pod.Annotations = nil }
	owned := func(pod *corev1.Pod) {
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(shadowPod(), offloadingv1beta1.ShadowPodGVK)}
	}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		runs bool
	}{
		"it terminates":                                         {unlabeled(), true},
		"it has lost its annotation, too":                       {unlabeled(unrecorded, owned), true},
		"its kubelet has confirmed the end":                     {unlabeled(deletedWith(0)), false},
		"it has finished":                                       {unlabeled(phase(corev1.PodSucceeded)), false},
		"it is that of another local pod":                       {unlabeled(func(p *corev1.Pod) { p.Annotations[remote.LocalPodUIDAnnotation] = "local-2" }), false},
		"it was made by another user, who may keep it for ever": {unlabeled(unrecorded), false},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.runs, ask.IsOwn(tc.pod)) })
	}
}
