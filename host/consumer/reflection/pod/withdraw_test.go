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

// own is the grace period in a pod's spec.
func own(seconds int64) podOption {
	return func(pod *corev1.Pod) { pod.Spec.TerminationGracePeriodSeconds = &seconds }
}

// ending is a pod whose deletion was asked for just now, with some seconds of grace.
func ending(seconds int64) podOption {
	return func(pod *corev1.Pod) {
		at := metav1.NewTime(now.Add(time.Duration(seconds) * time.Second))
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &at, &seconds
	}
}

// supporting is a remote pod of a provider that follows our annotation.
var supporting = annotation(offloadingv1beta1.SupportsAnnotation, "something-else,"+offloadingv1beta1.SupportsDeletionGracePeriod)

func told(seconds string) shadowOption {
	return shadowAnnotation(offloadingv1beta1.DeletionGracePeriodAnnotation, seconds)
}

// endTests are what becomes of a grace period (T16).
var endTests = map[string]struct {
	local  *corev1.Pod
	shadow *offloadingv1beta1.ShadowPod
	pod    *corev1.Pod
	memory memory
	later  time.Duration
	want   string
}{
	"its own period needs no word": {
		local: localPod(own(60), ending(60)), shadow: shadowPod(), pod: remotePod(running, supporting), want: "delete remote in the foreground",
	},
	"the default is a period of its own": {
		local: localPod(ending(30)), shadow: shadowPod(), pod: remotePod(running, supporting), want: "delete remote in the foreground",
	},
	"a negative one is the API server's one second": {
		local: localPod(own(-7), ending(1)), shadow: shadowPod(), pod: remotePod(running, supporting), want: "delete remote in the foreground",
	},
	"a shorter one is told with the deletion": {
		local: localPod(own(60), ending(5)), shadow: shadowPod(), pod: remotePod(running, supporting), want: "give 5, delete remote in the foreground",
	},
	"told already": {
		local: localPod(own(60), ending(5)), shadow: shadowPod(told("5")), pod: remotePod(running, supporting), want: "delete remote in the foreground",
	},
	"a longer one is told, and the provider begins": {
		local: localPod(own(60), ending(120)), shadow: shadowPod(), pod: remotePod(running, supporting), want: "give 120, wait",
	},
	"a longer one, told, is waited for": {
		local: localPod(own(60), ending(120)), shadow: shadowPod(told("120")), pod: remotePod(running, supporting), later: 9 * time.Second, want: "wait",
	},
	"a longer one, begun": {
		local: localPod(own(60), ending(120)), shadow: shadowPod(told("120")), pod: remotePod(running, supporting, ending(120)), want: "delete remote in the foreground",
	},
	"a longer one that the provider does not begin": {
		local: localPod(own(60), ending(120)), shadow: shadowPod(told("120")), pod: remotePod(running, supporting), later: 10 * time.Second, want: "delete remote in the foreground",
	},
	"a longer one of a pod that is on its way already": {
		local: localPod(own(60), ending(120)), shadow: shadowPod(), pod: remotePod(running, supporting, ending(60)), want: "delete remote in the foreground",
	},
	"a longer one of a pod that has finished": {
		local: localPod(own(60), ending(120)), shadow: shadowPod(), pod: remotePod(phase(corev1.PodSucceeded), supporting), want: "delete remote in the foreground",
	},
	"a second deletion that gives less": {
		local: localPod(own(60), ending(5)), shadow: shadowPod(shadowDeleting), pod: remotePod(supporting, ending(60)), want: "give 5",
	},
	"and one that gives even less": {
		local: localPod(own(60), ending(2)), shadow: shadowPod(shadowDeleting, told("5")), pod: remotePod(supporting, ending(5)), want: "give 2",
	},
	"a second deletion before the provider has begun": {
		local: localPod(own(60), ending(5)), shadow: shadowPod(shadowDeleting), pod: remotePod(supporting), want: "give 5",
	},
	"a second deletion that was told": {
		local: localPod(own(60), ending(5)), shadow: shadowPod(shadowDeleting, told("5")), pod: remotePod(supporting, ending(60)), want: "",
	},
	"a pod that goes in time needs no word": {
		local: localPod(own(60), ending(5)), shadow: shadowPod(shadowDeleting), pod: remotePod(supporting, ending(5)), want: "",
	},
	"without ShadowPod there is nobody to tell": {
		local: localPod(own(60), ending(5)), pod: remotePod(supporting, ending(60)), want: "",
	},
	"the status comes back meanwhile": {
		local: localPod(own(60), ending(5)), shadow: shadowPod(shadowDeleting), pod: remotePod(running, supporting, ending(60)), want: "give 5, status Running",
	},
	"a remote pod that has ended gets no shorter time": {
		local: localPod(own(60), ending(5), running), shadow: shadowPod(shadowDeleting), pod: remotePod(phase(corev1.PodFailed), supporting, ending(60)), want: "status Failed",
	},
	"a provider that does not know the annotation is not told": {
		local: localPod(own(60), ending(5)), shadow: shadowPod(), pod: remotePod(running), want: "delete remote",
	},
	"nor waited for": {
		local: localPod(own(60), ending(120)), shadow: shadowPod(), pod: remotePod(running), want: "delete remote",
	},
	"before there is a remote pod, nothing needs time": {
		local: localPod(own(60), ending(5)), shadow: shadowPod(), want: "delete remote",
	},
	"deleted by force under our eyes": {
		shadow: shadowPod(), pod: remotePod(running, supporting), memory: memory{local: "local-1", own: 60}, want: "give 0, delete remote in the foreground",
	},
	"deleted by force while it goes": {
		shadow: shadowPod(shadowDeleting), pod: remotePod(supporting, ending(60)), memory: memory{local: "local-1", own: 60}, want: "give 0",
	},
	"deleted by force, and told": {
		shadow: shadowPod(shadowDeleting, told("0")), pod: remotePod(supporting, ending(60)), memory: memory{local: "local-1", own: 60}, want: "",
	},
	"deleted by force, with a second left anyway": {
		shadow: shadowPod(shadowDeleting), pod: remotePod(supporting, ending(1)), memory: memory{local: "local-1", own: 60}, want: "",
	},
	"deleted by force at a provider that does not know the annotation": {
		shadow: shadowPod(), pod: remotePod(running), memory: memory{local: "local-1", own: 60}, want: "delete remote",
	},
	"gone before we looked, nobody knows why": {
		shadow: shadowPod(), pod: remotePod(running, supporting), want: "delete remote in the foreground",
	},
	"without a period of its own a pod goes at once, as it should": {
		shadow: shadowPod(), pod: remotePod(running, supporting), memory: memory{local: "local-1"}, want: "delete remote in the foreground",
	},
	"what has finished needs no time": {
		shadow: shadowPod(), pod: remotePod(phase(corev1.PodSucceeded), supporting), memory: memory{local: "local-1", own: 60}, want: "delete remote in the foreground",
	},
	"deleted by force and made again: the earlier pod is given no time (T25)": {
		local: localPod(uid("local-2")), shadow: shadowPod(), pod: remotePod(running, supporting), memory: memory{local: "local-1", own: 60}, want: "give 0, delete remote in the foreground",
	},
	"made again, and nobody knows how the earlier pod went (T25)": {
		local: localPod(uid("local-2")), shadow: shadowPod(), pod: remotePod(running, supporting), memory: memory{local: "local-2", own: 60}, want: "delete remote in the foreground",
	},
	"aborted: its own period": {
		local: localPod(phase(corev1.PodFailed, offloadingv1beta1.OffloadingAbortedReason)), shadow: shadowPod(), pod: remotePod(running, supporting), want: "delete remote in the foreground",
	},
}

func TestAGracePeriodReachesTheProvider(t *testing.T) {
	for name, tc := range endTests {
		t.Run(name, func(t *testing.T) {
			in := input(tc.local, tc.shadow, tc.pod)
			in.Facts.Now = now.Add(tc.later)
			if tc.memory != (memory{}) {
				in.Memory = tc.memory
			}
			actions, err := definition(&policies{}).Decide(t.Context(), in)
			require.NoError(t, err)
			require.NotEmpty(t, actions, "every decision says something")
			assert.Equal(t, tc.want, summary(actions))
		})
	}
}

// What a pod's deletion needs is remembered from its first decision.
func TestTheGracePeriodIsRemembered(t *testing.T) {
	d := definition(&policies{})
	in := input(localPod(own(60)), nil, nil)
	actions, err := d.Decide(t.Context(), in)
	require.NoError(t, err)
	in = recall(in, actions)
	assert.Equal(t, memory{local: "local-1", own: 60}, memory{local: in.Memory.(memory).local, own: in.Memory.(memory).own})

	// A virtual kubelet that was started again learns it with the pod's status.
	in = input(localPod(own(60)), shadowPod(), remotePod(running))
	actions, err = d.Decide(t.Context(), in)
	require.NoError(t, err)
	in = recall(in, actions)
	assert.EqualValues(t, 60, in.Memory.(memory).own)
}

func TestAPodMadeAgainBeginsWithoutRestarts(t *testing.T) {
	shadow := shadowPod(shadowAnnotation(remote.LocalPodUIDAnnotation, "local-2"))
	there := remotePod(running, container("web", 0), annotation(remote.LocalPodUIDAnnotation, "local-2"))
	in := input(localPod(uid("local-2")), shadow, there)
	in.Memory = memory{local: "local-1", own: 30, remoteUID: "remote-0", restarts: 3}
	actions, err := definition(&policies{}).Decide(t.Context(), in)
	require.NoError(t, err)
	for _, action := range actions {
		if patch, ok := action.(engine.PatchLocalStatus); ok {
			assert.Zero(t, patch.New.(*corev1.PodStatus).ContainerStatuses[0].RestartCount, "the restarts were another pod's")
			return
		}
	}
	t.Fatal("no status")
}

func TestOwnPeriod(t *testing.T) {
	for want, period := range map[int64]*int64{30: nil, 0: ptr.To[int64](0), 1: ptr.To[int64](-1), 7: ptr.To[int64](7)} {
		assert.Equal(t, want, ownPeriod(&corev1.Pod{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: period}}))
	}
}
