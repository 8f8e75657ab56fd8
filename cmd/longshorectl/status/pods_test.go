package status

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// waits makes a pod wait for a reason since a time.
func waits(pod corev1.Pod, reason string, since time.Time) corev1.Pod {
	pod.Status.Phase = corev1.PodPending
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(since)}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "a", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}
	return pod
}

func TestPodsThatAreProblems(t *testing.T) {
	long, fresh := now.Add(-2*patience), now.Add(-patience/2)
	refused := func(reason string, since time.Time) corev1.Pod {
		pod := waits(readyPod("web-1", "milan"), "", since)
		pod.Status.ContainerStatuses, pod.Status.Reason, pod.Status.Message = nil, reason, "Message."
		return pod
	}
	unscheduled := func(since time.Time) corev1.Pod {
		pod := waits(readyPod("web-1", ""), "", since)
		pod.Status.ContainerStatuses = nil
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available.", LastTransitionTime: metav1.NewTime(since),
		}}
		pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		pod.Spec.Containers[0].Resources.Requests = quantities("cpu", "1000")
		return pod
	}
	with := func(pod corev1.Pod, change func(*corev1.Pod)) corev1.Pod {
		change(&pod)
		return pod
	}
	for name, tc := range map[string]struct {
		pod           corev1.Pod
		change        func(*snapshot)
		actor, reason string
	}{
		"it runs":                            {pod: readyPod("web-1", "milan")},
		"its image is missing":               {pod: waits(readyPod("web-1", "milan"), "ImagePullBackOff", long), actor: "rome", reason: "ImagePullBackOff: "},
		"it has just begun":                  {pod: waits(readyPod("web-1", "milan"), "ImagePullBackOff", fresh)},
		"a policy denies it":                 {pod: refused("OffloadingDenied", fresh), actor: "rome", reason: "OffloadingDenied: Message."},
		"the provider refuses it":            {pod: refused("RemotePodRefused", fresh), actor: "milan", reason: "RemotePodRefused: Message."},
		"its namespace is not mapped":        {pod: refused("OffloadingBackOff", long), actor: "rome", reason: "OffloadingBackOff: Message."},
		"its namespace is not mapped yet":    {pod: refused("OffloadingBackOff", fresh)},
		"it does not fit":                    {pod: unscheduled(long), actor: "rome", reason: "Unschedulable: No virtual node takes the pod"},
		"it does not fit yet":                {pod: unscheduled(fresh)},
		"its namespace stays here":           {pod: unscheduled(long), change: func(s *snapshot) { s.offloadings.Items[0].Spec.PodOffloadingStrategy = "Local" }},
		"its namespace is not offloaded":     {pod: with(unscheduled(long), func(p *corev1.Pod) { p.Namespace = "other" })},
		"another controller holds it":        {pod: with(unscheduled(long), func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "queue"}} })},
		"its Job failed":                     {pod: with(refused("Evicted", long), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })},
		"it is not deleted":                  {pod: with(readyPod("web-1", "milan"), func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: long} }), actor: "rome", reason: "Deleting: "},
		"its grace period has not ended yet": {pod: with(readyPod("web-1", "milan"), func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now.Add(time.Hour)} })},
	} {
		t.Run(name, func(t *testing.T) {
			s := healthyCluster()
			s.pods = append(s.pods, tc.pod)
			if tc.change != nil {
				tc.change(s)
			}
			found := build(s).Problems
			if tc.reason == "" {
				assert.Empty(t, found)
				return
			}
			require.Len(t, found, 1)
			assert.Equal(t, "Pod shop/web-1", found[0].Object)
			assert.Contains(t, found[0].Message, tc.reason)
			assert.Equal(t, tc.actor, found[0].Actor)
			assert.Equal(t, "The cause of one, and who can correct it: longshorectl explain -n shop pod/web-1", found[0].Action)
		})
	}
}

// A Node that is not ready is a problem itself, and each of its pods would repeat it.
func TestPodsOfANodeThatIsNotReadyAreNoFurtherProblems(t *testing.T) {
	s := healthyCluster()
	s.nodes.Items[0].Status.Conditions[0].Status = corev1.ConditionUnknown
	s.pods = append(s.pods, waits(readyPod("web-1", "milan"), "ImagePullBackOff", now.Add(-time.Hour)))
	found := build(s).Problems
	require.Len(t, found, 1)
	assert.Contains(t, found[0].Message, "Its Node is not ready")
}

func TestManyPodsAreFewProblems(t *testing.T) {
	s := healthyCluster()
	s.virtualNodes.Items[0].Spec.ResourceQuota.Hard = quantities("cpu", "1000", "memory", "1Ti", "pods", "1000")
	for i := range 500 {
		s.pods = append(s.pods, waits(readyPod(fmt.Sprintf("web-%03d", i), "milan"), "ImagePullBackOff", now.Add(-time.Hour)))
	}
	found := build(s).Problems
	require.Len(t, found, 1)
	assert.Equal(t, "500 Pods: shop/web-000, shop/web-001, shop/web-002 and 497 more", found[0].Object)

	// A provider sends a reason of its own for each pod, which is as long as it can be.
	for i := range s.pods {
		for j := range s.pods[i].Status.ContainerStatuses {
			waiting := s.pods[i].Status.ContainerStatuses[j].State.Waiting
			waiting.Reason, waiting.Message = fmt.Sprintf("Reason%03d", i), string(make([]byte, 10*maxText))
		}
	}
	found = build(s).Problems
	require.Len(t, found, maxReasons+1)
	assert.Equal(t, "490 Pods: shop/web-010, shop/web-011, shop/web-012 and 487 more", found[maxReasons].Object)
	assert.Contains(t, found[maxReasons].Message, "They have 490 further reasons")
	for _, problem := range found {
		assert.LessOrEqual(t, len(problem.Message), maxText+len("Reason000: …"))
	}
}
