package shadowpod

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

var (
	forbidden = apierrors.NewForbidden(corev1.Resource("pods"), "web", assert.AnError)
	conflict  = apierrors.NewConflict(corev1.Resource("pods"), "web", assert.AnError)
	notFound  = apierrors.NewNotFound(corev1.Resource("pods"), "web")
)

// stranger is a pod of the name that this controller has not made.
func stranger(change func(*corev1.Pod)) *corev1.Pod {
	pod := ownPod(shadow(nil), corev1.PodRunning, 0)
	change(pod)
	return pod
}

// localUID says for which pod of the consumer a pod was made.
func localUID(pod *corev1.Pod, uid string) *corev1.Pod {
	pod.Annotations[remote.LocalPodUIDAnnotation] = uid
	return pod
}

// reminder is the ShadowPod that says how the pod of an earlier one ends.
func reminder(seconds string) *offloadingv1beta1.ShadowPod {
	return shadowWith(asked(seconds), func(s *offloadingv1beta1.ShadowPod) {
		s.UID, s.Annotations[remote.LocalPodUIDAnnotation] = "shadow-2", "local-1"
	})
}

// endTests are what one pass does for ShadowPods that end, or are gone.
var endTests = map[string]struct {
	world
	writes []string
	event  string
	err    error
	// shadowGone and podGone say what is no longer there after it.
	shadowGone, podGone bool
	again               bool
}{
	"the pod of a deleted ShadowPod is deleted, and the ShadowPod stays for it": {
		world: world{shadow: shadowWith(deleted(foreground)), pod: podOf(60, -1)}, writes: []string{"delete pod uid=pod-1"}, podGone: true,
	},
	"with the period that the consumer gives": {
		world: world{shadow: shadowWith(asked("5")), pod: podOf(60, -1)}, writes: []string{"delete pod uid=pod-1 grace=5"}, podGone: true,
	},
	"which may become shorter": {
		world: world{shadow: shadowWith(deleted(foreground), asked("5")), pod: podOf(60, 60)}, writes: []string{"delete pod uid=pod-1 grace=5"},
	},
	"a pod that goes is waited for": {
		world: world{shadow: shadowWith(deleted(foreground)), pod: podOf(60, 60)},
	},
	"no pod is made for a ShadowPod that ends": {
		world: world{shadow: shadowWith(asked("5"))}, podGone: true,
	},
	"a ShadowPod without pod is let go": {
		world: world{shadow: shadowWith(deleted(foreground))}, writes: []string{"patch shadowpod"}, podGone: true, shadowGone: true,
	},
	"finalizers of others stay": {
		world: world{shadow: shadowWith(deleted("example.com/x", foreground))}, writes: []string{"patch shadowpod"}, podGone: true,
	},
	"letting go of one that has changed since is tried again": {
		world:  world{shadow: shadowWith(deleted(foreground)), faults: map[string]error{"patch shadowpod": conflict}},
		writes: []string{"patch shadowpod"}, podGone: true, again: true,
	},
	"one that the garbage collector has let go is gone": {
		world:  world{shadow: shadowWith(deleted(foreground)), faults: map[string]error{"patch shadowpod": notFound}},
		writes: []string{"patch shadowpod"}, podGone: true,
	},
	"a pod of the same UID only: another has its own events": {
		world:  world{shadow: shadowWith(deleted(foreground)), pod: podOf(60, -1), faults: map[string]error{"delete pod": conflict}},
		writes: []string{"delete pod uid=pod-1"},
	},
	"a pod that is gone already": {
		world:  world{shadow: shadowWith(deleted(foreground)), pod: podOf(60, -1), faults: map[string]error{"delete pod": notFound}},
		writes: []string{"delete pod uid=pod-1"},
	},
	"a deletion that is refused is told and tried again": {
		world:  world{shadow: shadowWith(deleted(foreground)), pod: podOf(60, -1), faults: map[string]error{"delete pod": forbidden}},
		writes: []string{"delete pod uid=pod-1"}, err: forbidden, event: "FailedDeletePod",
	},
	"a pod that the cache does not know holds the ShadowPod, too": {
		world:  world{shadow: shadowWith(deleted(foreground)), live: podOf(60, -1)},
		writes: []string{"delete pod uid=pod-1"}, podGone: true, again: true,
	},
	"a stranger's pod does not hold the ShadowPod": {
		world:  world{shadow: shadowWith(deleted(foreground)), pod: stranger(func(p *corev1.Pod) { p.OwnerReferences = nil })},
		writes: []string{"patch shadowpod"}, shadowGone: true,
	},
	"a period that is no number is told, and the pod runs on": {
		world:  world{shadow: shadowWith(asked("soon"), func(s *offloadingv1beta1.ShadowPod) { s.Status.Phase = corev1.PodRunning }), pod: podOf(60, -1)},
		writes: []string{"patch pod"}, event: "FailedDeletePod",
	},
	"the pod of a ShadowPod that is gone is the garbage collector's": {
		world: world{pod: podOf(60, -1)}, shadowGone: true, again: true,
	},
	"and still is a moment later": {
		world: world{pod: podOf(60, -1), later: collectorLead - 1}, shadowGone: true, again: true,
	},
	"but no longer than that": {
		world: world{pod: podOf(60, -1), later: collectorLead}, writes: []string{"delete pod uid=pod-1"}, podGone: true, shadowGone: true,
	},
	"that of one whose successor is not in the cache yet is deleted, too": {
		world:  world{pod: podOf(60, -1), live: shadow(func(s *offloadingv1beta1.ShadowPod) { s.UID = "shadow-2" }), later: collectorLead},
		writes: []string{"delete pod uid=pod-1"}, podGone: true, shadowGone: true,
	},
	"but not that of a ShadowPod which only the cache does not know": {
		world: world{pod: podOf(60, -1), live: shadow(nil), later: collectorLead}, shadowGone: true,
	},
	"the pod of an earlier ShadowPod gets the period that another gives it": {
		world: world{shadow: reminder("5"), pod: localUID(podOf(60, 60), "local-1")}, writes: []string{"delete pod uid=pod-1 grace=5"},
	},
	"it is deleted if it does not go yet": {
		world: world{shadow: reminder("5"), pod: localUID(podOf(60, -1), "local-1")}, writes: []string{"delete pod uid=pod-1 grace=5"}, podGone: true,
	},
	"a pod that was made for another pod of the consumer does not": {
		world: world{shadow: reminder("5"), pod: localUID(podOf(60, 60), "local-2")},
	},
	"nor does one that does not say for which": {
		world: world{shadow: reminder("5"), pod: podOf(60, 60)},
	},
	"nor does a stranger's": {
		world: world{shadow: reminder("5"), pod: stranger(func(p *corev1.Pod) {
			localUID(p, "local-1")
			p.OwnerReferences = nil
		})},
	},
	"one that lost its label gets it as well": {
		world: world{shadow: reminder("5"), pod: stranger(func(p *corev1.Pod) {
			localUID(p, "local-1")
			delete(p.Labels, offloadingv1beta1.ManagedByLabel)
		})},
		writes: []string{"delete pod uid=pod-1 grace=5"}, podGone: true,
	},
	"one that goes already is left to go": {
		world: world{pod: podOf(60, 60)}, shadowGone: true,
	},
	"a refusal is tried again": {
		world:  world{pod: podOf(60, -1), faults: map[string]error{"delete pod": forbidden}, later: collectorLead},
		writes: []string{"delete pod uid=pod-1"}, err: forbidden, shadowGone: true,
	},
	"nothing is left":                {shadowGone: true, podGone: true},
	"nothing is left a moment later": {world: world{later: collectorLead}, shadowGone: true, podGone: true},
	"without a ShadowPod, a stranger's pod is a stranger's: no owner": {
		world: world{pod: stranger(func(p *corev1.Pod) { p.OwnerReferences = nil })}, shadowGone: true,
	},
	"a stranger's pod: another kind of owner": {
		world: world{pod: stranger(func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "ReplicaSet" })}, shadowGone: true,
	},
	"a stranger's pod: another group's ShadowPod": {
		world: world{pod: stranger(func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion = "example.com/v1" })}, shadowGone: true,
	},
	"a stranger's pod: a ShadowPod of another name": {
		world: world{pod: stranger(func(p *corev1.Pod) { p.OwnerReferences[0].Name = "db" })}, shadowGone: true,
	},
	"a stranger's pod: an owner that is not its controller": {
		world: world{pod: stranger(func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil })}, shadowGone: true,
	},
	"without a ShadowPod, a pod that lost its label is recognized by its owner": {
		world: world{pod: stranger(func(p *corev1.Pod) { delete(p.Labels, offloadingv1beta1.ManagedByLabel) })}, shadowGone: true, again: true,
	},
}

func TestTheEndOfAShadowPod(t *testing.T) {
	for name, tc := range endTests {
		t.Run(name, func(t *testing.T) {
			out := tc.pass(t)
			require.ErrorIs(t, out.err, tc.err)
			assert.Equal(t, tc.writes, out.writes)
			assert.Equal(t, tc.podGone, out.pod == nil)
			assert.Equal(t, tc.shadowGone, out.shadow == nil)
			assert.Equal(t, tc.again, out.result.RequeueAfter > 0)
			if tc.event == "" {
				assert.Empty(t, out.events)
				return
			}
			require.Len(t, out.events, 1)
			assert.Contains(t, out.events[0], tc.event)
		})
	}
}
