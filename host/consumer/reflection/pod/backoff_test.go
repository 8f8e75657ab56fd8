package pod

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

// controller is one of the consumer that creates a pod for each one that has ended, at once, as a
// ReplicaSet does, on a virtual node whose provider ends pods.
type controller struct {
	t   *testing.T
	d   *Definition
	now time.Time
	// in is the input of the decision about the current pod.
	in      engine.Input
	options []podOption
	pods    int
}

func newController(t *testing.T, options ...podOption) *controller {
	t.Helper()
	c := &controller{t: t, d: definition(&policies{}), now: now, options: options}
	c.replace()
	return c
}

// replace creates the next pod.
func (c *controller) replace() {
	c.pods++
	pod := localPod(append([]podOption{uid(types.UID(fmt.Sprintf("local-%d", c.pods)))}, c.options...)...)
	pod.CreationTimestamp = metav1.NewTime(c.now.Truncate(time.Second))
	c.in = input(pod, nil, nil)
}

func (c *controller) decide() []engine.Action {
	c.in.Facts.Now = c.now
	actions, err := decide(c.t.Context(), c.d, c.in)
	require.NoError(c.t, err)
	c.in = remember(c.in, actions)
	if status := patchedStatus(actions); status != nil {
		pod := c.in.Local.(*corev1.Pod).DeepCopy()
		pod.Status = *status
		c.in.Local = pod
	}
	return actions
}

// begins returns what is created in the provider, and how long that waits otherwise.
func (c *controller) begins() (*offloadingv1beta1.ShadowPod, time.Duration) {
	for _, action := range c.decide() {
		switch a := action.(type) {
		case engine.Create:
			return a.Object.(*offloadingv1beta1.ShadowPod), 0
		case engine.Requeue:
			return nil, a.After
		}
	}
	require.Fail(c.t, "the pod neither begins nor waits")
	return nil, 0
}

// ended is a way in which the remote pod of a ShadowPod has ended.
type ended func(*controller, *offloadingv1beta1.ShadowPod)

func withStatus(status corev1.PodStatus) ended {
	return func(c *controller, shadow *offloadingv1beta1.ShadowPod) {
		pod := remotePod(annotation(remote.LocalPodUIDAnnotation, string(c.in.Local.GetUID())))
		pod.Status = status
		c.in.Remote, c.in.Dependent = shadow, pod
		c.decide()
		require.Equal(c.t, status.Phase, c.in.Local.(*corev1.Pod).Status.Phase, "the end is reported at once")
		c.replace()
	}
}

func withoutPod(phase corev1.PodPhase) ended {
	return func(c *controller, shadow *offloadingv1beta1.ShadowPod) {
		shadow.Status.Phase = phase
		c.in.Remote = shadow
		c.decide()
		c.replace()
	}
}

// removed deletes the ShadowPod. The local pod lives, and is offloaded again.
func removed(*controller, *offloadingv1beta1.ShadowPod) {}

// withdrawn is a provider that withdraws the remote namespace.
func withdrawn(c *controller, _ *offloadingv1beta1.ShadowPod) {
	pod := c.in.Local.(*corev1.Pod).DeepCopy()
	pod.Status.Phase = corev1.PodRunning
	c.in.Local = pod
	for range 2 { // The write of the status may have failed.
		actions, err := c.d.Fallback(c.in)
		require.NoError(c.t, err)
		for _, action := range actions {
			if query, ok := action.(engine.Query); ok {
				_, err := query.Run(c.t.Context())
				require.NoError(c.t, err)
			}
		}
	}
	c.replace()
}

// within returns how many pods begin in some time, of which each lasts for a while.
func (c *controller) within(period, lasts time.Duration, end ended) (begun int) {
	for until := c.now.Add(period); c.now.Before(until); {
		shadow, wait := c.begins()
		if shadow == nil {
			require.Positive(c.t, wait)
			c.now = c.now.Add(wait)
			continue
		}
		begun++
		c.now = c.now.Add(lasts)
		end(c, shadow)
	}
	return begun
}

func ofReplicaSet(pod *corev1.Pod) {
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-5d4", UID: "web-1", Controller: ptr.To(true)}}
}

func ofJob(pod *corev1.Pod) {
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "sums", UID: "sums-1", Controller: ptr.To(true)}}
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
}

// A provider that ends pods again and again does not have the controllers of the consumer create pods without
// end.
func TestPodsThatTheProviderEndsBeginEverMoreSeldom(t *testing.T) {
	for name, tc := range map[string]struct {
		pod podOption
		end ended
	}{
		"it fails them":                                   {ofReplicaSet, withStatus(corev1.PodStatus{Phase: corev1.PodFailed})},
		"it evicts them":                                  {ofReplicaSet, withStatus(corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"})},
		"it says that a server has succeeded":             {ofReplicaSet, withStatus(corev1.PodStatus{Phase: corev1.PodSucceeded})},
		"it says so in the ShadowPod only":                {ofReplicaSet, withoutPod(corev1.PodFailed)},
		"it removes ShadowPods":                           {ofReplicaSet, removed},
		"it removes the ShadowPod of a pod without owner": {func(*corev1.Pod) {}, removed},
		"it withdraws the namespace":                      {ofReplicaSet, withdrawn},
		"its kubelet does not take the pods of a Job":     {ofJob, withStatus(corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfcpu"})},
	} {
		t.Run(name, func(t *testing.T) {
			c := newController(t, tc.pod)
			assert.LessOrEqual(t, c.within(30*time.Second, 10*time.Millisecond, tc.end), 7, "at once, and after 0, 1, 2, 4, 8 and 16 s")
			assert.LessOrEqual(t, c.within(time.Hour, 10*time.Millisecond, tc.end), 16, "one in five minutes, as a container that crashes")
			assert.LessOrEqual(t, c.within(time.Hour, time.Minute, tc.end), 12, "and if each lasts for a minute")

			c.now = c.now.Add(time.Hour)
			c.replace()
			_, wait := c.begins()
			assert.Zero(t, wait, "after an hour without an end")
		})
	}
}

// What a pod does by itself is the matter of its controller, and so is what happens once in a while.
func TestPodsThatBeginAtOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		pod   podOption
		lasts time.Duration
		end   ended
	}{
		"a Job's pods fail by their exit code":     {ofJob, 0, withStatus(corev1.PodStatus{Phase: corev1.PodFailed})},
		"a Job's pods succeed":                     {ofJob, 0, withStatus(corev1.PodStatus{Phase: corev1.PodSucceeded})},
		"a Job's pods have a deadline":             {ofJob, 0, withStatus(corev1.PodStatus{Phase: corev1.PodFailed, Reason: "DeadlineExceeded"})},
		"the provider has removed a Job's old pod": {ofJob, 0, withoutPod(corev1.PodFailed)},
		"a server is evicted after a good while":   {ofReplicaSet, 11 * time.Minute, withStatus(corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"})},
		"the same by the loss of its ShadowPod":    {ofReplicaSet, 11 * time.Minute, removed},
		"containers that end in a pod that restarts others": {func(p *corev1.Pod) {
			ofReplicaSet(p)
			p.Spec.Containers[0].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyNever)
		}, 0, withStatus(corev1.PodStatus{Phase: corev1.PodFailed})},
	} {
		t.Run(name, func(t *testing.T) {
			c := newController(t, tc.pod)
			for range 20 {
				shadow, wait := c.begins()
				require.Zero(t, wait)
				c.now = c.now.Add(tc.lasts + time.Millisecond)
				tc.end(c, shadow)
			}
		})
	}
}

// Pods of other controllers do not wait, and one that waits says why.
func TestAPodSaysThatItsProviderEndedOthers(t *testing.T) {
	c := newController(t, ofReplicaSet)
	end := withStatus(corev1.PodStatus{Phase: corev1.PodFailed})
	c.within(10*time.Second, 0, end)
	shadow, _ := c.begins()
	require.NotNil(t, shadow, "the sixth, after 15 s")
	end(c, shadow)
	actions := c.decide()
	assert.Equal(t, "status Pending EndedByProvider, event EndedByProvider, wait RemotePodBackOff", summary(actions))
	message := c.in.Local.(*corev1.Pod).Status.Message
	assert.Equal(t, "Cluster milan ends pods of ReplicaSet web-5d4 again and again, soon after the start. The pod waits until 03:04:36 UTC before it begins there. "+
		"Ask the administrator of the cluster why, or keep the pods away from node milan-node.", message)
	c.now = c.now.Add(time.Second)
	assert.Equal(t, "keep StatusUnchanged, event EndedByProvider, wait RemotePodBackOff", summary(c.decide()), "the same message until the pod begins")

	other := newController(t, ofReplicaSet)
	other.d, other.now = c.d, c.now
	pod := c.in.Local.(*corev1.Pod).DeepCopy()
	pod.OwnerReferences[0].UID = "other-1"
	other.in = input(pod, nil, nil)
	_, wait := other.begins()
	assert.Zero(t, wait, "pods of another ReplicaSet do not wait")

	// A pod that begins later loses the message with the first status of its remote pod.
	c.now = c.now.Add(time.Minute)
	shadow, _ = c.begins()
	require.NotNil(t, shadow)
	c.in.Remote, c.in.Dependent = shadow, remotePod(annotation(remote.LocalPodUIDAnnotation, string(c.in.Local.GetUID())))
	c.decide()
	assert.Empty(t, c.in.Local.(*corev1.Pod).Status.Message)
}

// The replicas of one controller, which end together, are one end: a node of the provider that fails is no
// reason for a long pause.
func TestPodsThatEndTogetherAreOneEnd(t *testing.T) {
	end, at := ending{}, now
	for range 1000 {
		at = at.Add(time.Millisecond)
		end = end.of(now, at)
	}
	pause, _ := end.pause(at)
	assert.Zero(t, pause)
	end = end.of(at, at.Add(time.Second))
	pause, _ = end.pause(at.Add(time.Second))
	assert.Equal(t, time.Second, pause)
}

func TestEndingsAreBounded(t *testing.T) {
	e := newEndings()
	for n := range 3 * maxEndings {
		e.note(types.UID(fmt.Sprint(n)), now, now)
	}
	assert.LessOrEqual(t, e.owners.Len(), maxEndings)
}
