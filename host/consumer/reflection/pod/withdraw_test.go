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

// gives is a pod whose deletion was asked for just now, with some seconds of grace.
func gives(seconds int64) podOption {
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
		local: goes(60), shadow: shadowPod(), pod: remotePod(supporting), want: "delete remote",
	},
	"the default is a period of its own": {
		local: localPod(gives(30)), shadow: shadowPod(), pod: remotePod(supporting), want: "delete remote",
	},
	"a negative one is the API server's one second": {
		local: localPod(own(-7), gives(1)), shadow: shadowPod(), pod: remotePod(supporting), want: "delete remote",
	},
	"a shorter one": {
		local: goes(5), shadow: shadowPod(), pod: remotePod(own(60), supporting), want: "give 5, wait",
	},
	"a longer one": {
		local: goes(120), shadow: shadowPod(), pod: remotePod(own(60), supporting), want: "give 120, wait",
	},
	"told already": {
		local: goes(5), shadow: shadowPod(told("5")), pod: remotePod(supporting), want: "wait",
	},
	"what somebody else wrote there is no period": {
		local: goes(5), shadow: shadowPod(told("soon")), pod: remotePod(supporting), want: "give 5, wait",
	},
	"a pod that is evicted, of which the provider may be making another": {
		local: goes(60), shadow: shadowPod(), pod: remotePod(supporting, gives(60)), want: "delete remote in the foreground",
	},
	"a pod that has finished": {
		local: goes(60), shadow: shadowPod(), pod: remotePod(phase(corev1.PodSucceeded), supporting), want: "delete remote, status Succeeded",
	},
	"the status comes back meanwhile": {
		local: goes(5), shadow: shadowPod(), pod: remotePod(running, supporting, gives(60)), want: "give 5, status Running",
	},
	"a second deletion that gives less": {
		local: goes(5), shadow: shadowPod(told("60")), pod: remotePod(supporting, gives(60)), want: "give 5",
	},
	"and one that gives even less": {
		local: goes(2), shadow: shadowPod(told("5")), pod: remotePod(supporting, gives(5)), want: "give 2",
	},
	"a second deletion before the provider has begun": {
		local: goes(5), shadow: shadowPod(told("60")), pod: remotePod(supporting), want: "give 5, wait",
	},
	"a second deletion that gives less than a longer one": {
		local: goes(90), shadow: shadowPod(told("120")), pod: remotePod(own(60), supporting), want: "give 90, wait",
	},
	"a second deletion that was told": {
		local: goes(5), shadow: shadowPod(told("5")), pod: remotePod(supporting, gives(60)), want: "",
	},
	"a pod that goes in time needs no word": {
		local: goes(5), shadow: shadowPod(told("60")), pod: remotePod(supporting, gives(5)), want: "",
	},
	"nor does one that has ended": {
		local: goes(5), shadow: shadowPod(told("60")), pod: remotePod(phase(corev1.PodFailed), supporting, gives(60)), want: "status Failed",
	},
	"no period becomes longer": {
		local: goes(120), shadow: shadowPod(told("60")), pod: remotePod(supporting, gives(60)), want: "",
	},
	"a ShadowPod that is deleted in the foreground is told less": {
		local: goes(5), shadow: shadowPod(shadowDeleting), pod: remotePod(supporting, gives(60)), want: "give 5",
	},
	"and even less": {
		local: goes(2), shadow: shadowPod(shadowDeleting, told("5")), pod: remotePod(supporting, gives(5)), want: "give 2",
	},
	"but not what it knows": {
		local: goes(60), shadow: shadowPod(shadowDeleting), pod: remotePod(supporting, gives(60)), want: "",
	},
	"a pod that goes with its own, and is given less: another ShadowPod says so": {
		local: goes(5), pod: remotePod(supporting, gives(60)), want: "create",
	},
	"so it is before the provider has begun": {
		local: goes(5), pod: remotePod(own(60), supporting), want: "create",
	},
	"but not when it goes in time": {
		local: goes(5), pod: remotePod(supporting, gives(5)), want: "",
	},
	"nor when it has ended": {
		local: goes(5), pod: remotePod(supporting, gives(60), phase(corev1.PodFailed)), want: "status Failed",
	},
	"nor is it given more": {
		local: goes(120), pod: remotePod(own(60), supporting), want: "",
	},
	"nor is a provider asked that does not know what to do": {
		local: goes(5), pod: remotePod(gives(60)), want: "",
	},
	"the provider does not begin yet": {
		local: goes(60), shadow: shadowPod(told("60")), pod: remotePod(supporting), memory: tolds(seen), later: beginWait - 1, want: "wait",
	},
	"the provider does not begin at all: the garbage collector does": {
		local: goes(60), shadow: shadowPod(told("60")), pod: remotePod(supporting), memory: tolds(seen), later: beginWait, want: "delete remote in the foreground",
	},
	"a pod that goes is waited for, however long that takes": {
		local: goes(60), shadow: shadowPod(told("60")), pod: remotePod(supporting, gives(60)), memory: tolds(seen), later: time.Hour, want: "",
	},
	"a pod that is gone": {
		local: goes(60), shadow: shadowPod(told("60")), memory: tolds(seen), want: "delete remote",
	},
	"a pod that was evicted, of which the provider may have made another": {
		local: goes(60), shadow: shadowPod(told("60")), memory: tolds(seen, early), want: "delete remote in the foreground",
	},
	"a pod that nobody has seen": {
		local: goes(60), shadow: shadowPod(), want: "delete remote",
	},
	"a pod that nobody has seen gets the period that was asked for": {
		local: goes(5), shadow: shadowPod(), want: "give 5, wait",
	},
	"it is waited for": {
		local: goes(60), shadow: shadowPod(told("60")), memory: tolds(), later: appearWait - 1, want: "wait",
	},
	"it does not appear": {
		local: goes(60), shadow: shadowPod(told("60")), memory: tolds(), later: appearWait, want: "delete remote",
	},
	"it appears, and is ended": {
		local: goes(60), shadow: shadowPod(told("60")), pod: remotePod(supporting), memory: tolds(), later: appearWait, want: "wait",
	},
	"it appears and is another provider's": {
		local: goes(60), shadow: shadowPod(told("60")), pod: remotePod(), memory: tolds(), want: "delete remote",
	},
	"a pod that the provider cannot make": {
		local: goes(60), shadow: shadowPod(shadowRefused), want: "delete remote",
	},
	"a pod that has finished and was collected": {
		local: goes(60), shadow: shadowPod(shadowPhase(corev1.PodSucceeded)), want: "delete remote",
	},
	"what was told on an earlier ShadowPod is no matter": {
		local: goes(5), shadow: shadowPod(func(s *offloadingv1beta1.ShadowPod) { s.UID = "shadow-2" }), memory: tolds(seen), later: time.Hour, want: "give 5, wait",
	},
	"after a restart it is waited once more": {
		local: goes(60), shadow: shadowPod(told("60")), later: time.Hour, want: "wait",
	},
	"a provider that does not know the annotation is not told": {
		local: goes(5), shadow: shadowPod(), pod: remotePod(), want: "delete remote",
	},
	"nor waited for": {
		local: goes(120), shadow: shadowPod(), pod: remotePod(), want: "delete remote",
	},
	"deleted by force under our eyes": {
		shadow: shadowPod(), pod: remotePod(supporting), memory: memory{local: "local-1", own: 60}, want: "give 0, wait",
	},
	"deleted by force before the remote pod was seen": {
		shadow: shadowPod(), memory: memory{local: "local-1", own: 60}, want: "give 0, wait",
	},
	"deleted by force while it goes": {
		shadow: shadowPod(told("60")), pod: remotePod(supporting, gives(60)), memory: memory{local: "local-1", own: 60}, want: "give 0",
	},
	"deleted by force while the ShadowPod goes": {
		shadow: shadowPod(shadowDeleting), pod: remotePod(supporting, gives(60)), memory: memory{local: "local-1", own: 60}, want: "give 0",
	},
	"deleted by force, and told": {
		shadow: shadowPod(told("0")), pod: remotePod(supporting, gives(60)), memory: memory{local: "local-1", own: 60}, want: "",
	},
	"deleted by force, with a second left anyway": {
		shadow: shadowPod(told("60")), pod: remotePod(supporting, gives(1)), memory: memory{local: "local-1", own: 60}, want: "",
	},
	"deleted by force at a provider that does not know the annotation": {
		shadow: shadowPod(), pod: remotePod(), memory: memory{local: "local-1", own: 60}, want: "delete remote",
	},
	"deleted by force when the ShadowPod is gone": {
		pod: remotePod(supporting, gives(60)), memory: memory{local: "local-1", own: 60}, want: "create",
	},
	"gone before we looked, nobody knows why": {
		shadow: shadowPod(), pod: remotePod(supporting), want: "delete remote",
	},
	"deleted by us, and its remote pod appears too late": {
		pod: remotePod(supporting, gives(60)), memory: memory{local: "local-1", own: 60, letGo: now}, want: "",
	},
	"so it is when the ShadowPod is gone": {
		pod: remotePod(supporting, gives(60)), want: "",
	},
	"without a period of its own a pod goes at once, as it should": {
		shadow: shadowPod(), pod: remotePod(supporting), memory: memory{local: "local-1"}, want: "delete remote",
	},
	"what has finished needs no time": {
		shadow: shadowPod(), pod: remotePod(phase(corev1.PodSucceeded), supporting), memory: memory{local: "local-1", own: 60}, want: "delete remote",
	},
	"deleted by force and made again when the ShadowPod is gone (T25)": {
		local: localPod(uid("local-2")), pod: remotePod(supporting, gives(60)), memory: memory{local: "local-1", own: 60}, want: "create, wait",
	},
	"deleted by force and made again: the earlier pod is given no time (T25)": {
		local: localPod(uid("local-2")), shadow: shadowPod(), pod: remotePod(supporting), memory: memory{local: "local-1", own: 60}, want: "give 0, wait",
	},
	"made again, and nobody knows how the earlier pod went (T25)": {
		local: localPod(uid("local-2")), shadow: shadowPod(), pod: remotePod(supporting), memory: memory{local: "local-2", own: 60}, want: "delete remote",
	},
	"made again, and the earlier pod is gone (T25)": {
		local: localPod(uid("local-2")), shadow: shadowPod(told("0")), memory: tolds(seen), want: "delete remote",
	},
	"deleted while an even earlier pod is there, which is none of the ShadowPod's (T25)": {
		local:  localPod(uid("local-2"), gives(30)),
		shadow: shadowPod(shadowAnnotation(remote.LocalPodUIDAnnotation, "local-2"), told("30")), pod: remotePod(supporting, gives(60)),
		memory: memory{local: "local-2", ending: ending{shadow: "shadow-1", since: now}}, later: appearWait, want: "delete remote",
	},
	"aborted: its own period": {
		local: localPod(phase(corev1.PodFailed, offloadingv1beta1.OffloadingAbortedReason)), shadow: shadowPod(), pod: remotePod(supporting), want: "delete remote",
	},
	"aborted, and the pod is gone": {
		local: localPod(phase(corev1.PodFailed, offloadingv1beta1.OffloadingAbortedReason)), shadow: shadowPod(told("60")), memory: tolds(seen), want: "delete remote",
	},
}

// goes is a local pod with a period of a minute that is being deleted.
func goes(seconds int64) *corev1.Pod { return localPod(own(60), gives(seconds)) }

func seen(e *ending)  { e.seen = true }
func early(e *ending) { e.early = true }

// tolds is what is remembered after the provider was told of the end.
func tolds(options ...func(*ending)) memory {
	m := memory{local: "local-1", own: 60, ending: ending{shadow: "shadow-1", since: now}}
	for _, option := range options {
		option(&m.ending)
	}
	return m
}

func TestAGracePeriodReachesTheProvider(t *testing.T) {
	for name, tc := range endTests {
		t.Run(name, func(t *testing.T) {
			in := input(tc.local, tc.shadow, tc.pod)
			in.Facts.Now = now.Add(tc.later)
			if tc.memory != (memory{}) {
				in.Memory = tc.memory
			}
			actions, err := decide(t.Context(), definition(&policies{}), in)
			require.NoError(t, err)
			require.NotEmpty(t, actions, "every decision says something")
			assert.Equal(t, tc.want, summary(actions))
		})
	}
}

// end is the end of a pod, decision by decision: what the provider shows, and what is done.
type end []struct {
	after  time.Duration
	local  *corev1.Pod
	shadow *offloadingv1beta1.ShadowPod
	pod    *corev1.Pod
	want   string
}

var endings = map[string]end{
	"a pod is deleted": {
		{local: goes(60), shadow: shadowPod(), pod: remotePod(supporting), want: "delete remote"},
		{local: goes(60), shadow: shadowPod(shadowDeleting), pod: remotePod(supporting), want: ""},
		{local: goes(60), pod: remotePod(supporting, gives(60)), after: time.Minute, want: ""},
		{local: goes(60), want: "delete local"},
		{local: goes(0), after: time.Second, want: "wait"},
		{local: goes(0), after: letGoRetry, want: "delete local"},
	},
	"a pod is deleted, and given less time while it goes": {
		{local: goes(60), shadow: shadowPod(), pod: remotePod(supporting), want: "delete remote"},
		{local: goes(60), pod: remotePod(supporting, gives(60)), want: ""},
		{local: goes(5), pod: remotePod(supporting, gives(60)), want: "create"},
		{local: goes(5), shadow: another("5"), pod: remotePod(supporting, gives(60)), want: ""},
		{local: goes(2), shadow: another("5"), pod: remotePod(supporting, gives(5)), want: "give 2"},
		{shadow: another("2"), pod: remotePod(supporting, gives(2)), want: "give 0"},
		{shadow: another("0"), pod: remotePod(supporting, gives(1)), want: ""},
		{shadow: another("0"), after: time.Second, want: "delete remote"},
	},
	"a pod is deleted with less time": {
		{local: goes(5), shadow: shadowPod(), pod: remotePod(supporting), want: "give 5, wait"},
		{local: goes(5), shadow: shadowPod(told("5")), pod: remotePod(supporting), after: time.Second, want: "wait"},
		{local: goes(5), shadow: shadowPod(told("5")), pod: remotePod(supporting, gives(5)), want: ""},
		{local: goes(5), shadow: shadowPod(told("5")), want: "delete remote"},
		{local: goes(5), shadow: shadowPod(told("5"), shadowDeleting), want: ""},
		{local: goes(5), want: "delete local"},
	},
	"a pod is deleted by force, and made again": {
		{local: localPod(own(60)), shadow: shadowPod(), pod: remotePod(supporting), want: ""},
		{local: localPod(own(60), uid("local-2")), shadow: shadowPod(), pod: remotePod(supporting), want: "give 0, wait"},
		{local: localPod(own(60), uid("local-2")), shadow: shadowPod(told("0")), pod: remotePod(supporting, gives(1)), after: time.Second, want: ""},
		{local: localPod(own(60), uid("local-2")), shadow: shadowPod(told("0")), want: "delete remote"},
		{local: localPod(own(60), uid("local-2")), shadow: shadowPod(told("0"), shadowDeleting), want: ""},
		{local: localPod(own(60), uid("local-2")), want: "create, wait"},
	},
	"a pod is deleted with less time before its remote pod is seen": {
		{local: goes(5), shadow: shadowPod(), want: "give 5, wait"},
		{local: goes(5), shadow: shadowPod(told("5")), pod: remotePod(supporting), after: time.Second, want: "wait"},
		{local: goes(5), shadow: shadowPod(told("5")), pod: remotePod(supporting, gives(5)), want: ""},
		{local: goes(5), shadow: shadowPod(told("5")), want: "delete remote"},
		{local: goes(5), want: "delete local"},
	},
	"a pod is deleted before its remote pod is seen, which appears": {
		{local: goes(60), shadow: shadowPod(), want: "delete remote"},
		{local: goes(60), after: time.Second, want: "wait"},
		{local: goes(60), pod: remotePod(supporting), after: time.Second, want: ""},
		{local: goes(60), after: time.Second, want: "delete local"},
	},
	"a pod is deleted while it is evicted in the provider, which makes another": {
		{local: goes(60), shadow: shadowPod(), pod: remotePod(supporting, gives(60)), want: "delete remote in the foreground"},
		{local: goes(60), shadow: shadowPod(shadowDeleting), want: ""},
		{local: goes(60), shadow: shadowPod(shadowDeleting), pod: remotePod(supporting), want: ""},
		{local: goes(60), shadow: shadowPod(shadowDeleting), want: ""},
		{local: goes(60), want: "delete local"},
	},
	"the same with less time": {
		{local: goes(5), shadow: shadowPod(), pod: remotePod(supporting, gives(60)), want: "give 5"},
		{local: goes(5), shadow: shadowPod(told("5")), want: "delete remote in the foreground"},
		{local: goes(5), want: "delete local"},
	},
	"a provider whose controller is not there": {
		{local: goes(5), shadow: shadowPod(), pod: remotePod(supporting), want: "give 5, wait"},
		{local: goes(5), shadow: shadowPod(told("5")), pod: remotePod(supporting), after: beginWait, want: "delete remote in the foreground"},
	},
}

// another is the ShadowPod that says how a pod ends whose own ShadowPod is gone.
func another(seconds string) *offloadingv1beta1.ShadowPod {
	return shadowPod(told(seconds), func(s *offloadingv1beta1.ShadowPod) { s.UID = "shadow-2" })
}

func TestTheEndOfAPod(t *testing.T) {
	for name, steps := range endings {
		t.Run(name, func(t *testing.T) {
			d := definition(&policies{})
			at, remembered := now, any(nil)
			for i, step := range steps {
				in := input(step.local, step.shadow, step.pod)
				at = at.Add(step.after)
				in.Facts.Now, in.Memory = at, remembered
				actions, err := decide(t.Context(), d, in)
				require.NoError(t, err)
				assert.Equal(t, step.want, summary(actions), "step %d", i)
				remembered = recall(in, actions).Memory
			}
		})
	}
}

// What a pod's deletion needs is remembered from its first decision.
func TestTheGracePeriodIsRemembered(t *testing.T) {
	d := definition(&policies{})
	in := input(localPod(own(60)), nil, nil)
	actions, err := decide(t.Context(), d, in)
	require.NoError(t, err)
	in = recall(in, actions)
	assert.Equal(t, memory{local: "local-1", own: 60}, memory{local: in.Memory.(memory).local, own: in.Memory.(memory).own})

	// A virtual kubelet that was started again learns it with the pod's status.
	in = input(localPod(own(60)), shadowPod(), remotePod(running))
	actions, err = decide(t.Context(), d, in)
	require.NoError(t, err)
	in = recall(in, actions)
	assert.EqualValues(t, 60, in.Memory.(memory).own)
}

func TestAPodMadeAgainBeginsWithoutRestarts(t *testing.T) {
	shadow := shadowPod(shadowAnnotation(remote.LocalPodUIDAnnotation, "local-2"))
	there := remotePod(running, container("web", 0), annotation(remote.LocalPodUIDAnnotation, "local-2"))
	in := input(localPod(uid("local-2")), shadow, there)
	in.Memory = memory{local: "local-1", own: 30, remoteUID: "remote-0", restarts: 3}
	actions, err := decide(t.Context(), definition(&policies{}), in)
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
		assert.Equal(t, want, ownPeriod(&corev1.PodSpec{TerminationGracePeriodSeconds: period}))
	}
}
