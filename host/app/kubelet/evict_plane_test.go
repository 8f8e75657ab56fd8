package kubelet_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
)

// testEviction evicts the remote pod of a pod with restartPolicy Never: the API server rejects
// that its containers leave the state terminated.
func (r *rig) testEviction(t *testing.T) {
	pod := podOn(nodeName, "job")
	pod.Spec.RestartPolicy, pod.Spec.TerminationGracePeriodSeconds = corev1.RestartPolicyNever, ptr.To[int64](600)
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "side", Image: "example.com/side:1"})
	main := pod.Spec.Containers[0].Name
	r.create(r.rome, pod)
	running, ended := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, func(code int32) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}
	}

	first := r.awaitRemotePod(t, "job", "")
	r.reportStatus(t, first, corev1.PodRunning, map[string]corev1.ContainerState{main: running, "side": ended(0)})
	r.awaitStates(t, pod, corev1.PodRunning, map[string]bool{main: false, "side": true})

	require.NoError(t, r.milan.SubResource("eviction").Create(t.Context(), first, &policyv1.Eviction{}))
	r.awaitTerminating(t, "job", 600)
	// The kubelet reports containers as they end, and then the phase.
	r.reportStatus(t, first, corev1.PodRunning, map[string]corev1.ContainerState{main: ended(143), "side": ended(0)})
	r.reportStatus(t, first, corev1.PodFailed, map[string]corev1.ContainerState{main: ended(143), "side": ended(0)})
	require.NoError(t, r.milan.Delete(t.Context(), first, client.GracePeriodSeconds(0)))

	second := r.awaitRemotePod(t, "job", first.UID)
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	r.reportStatus(t, second, corev1.PodPending, map[string]corev1.ContainerState{main: waiting, "side": waiting})
	r.reportStatus(t, second, corev1.PodRunning, map[string]corev1.ContainerState{main: running, "side": running})
	planetest.Until(t, func(t planetest.T) bool {
		require.NoError(t, r.rome.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
		return restartsOf(pod, main) == 1
	}, soon, tick, "the status of the second remote pod is reflected")
	r.awaitStates(t, pod, corev1.PodRunning, map[string]bool{main: false, "side": true})

	r.reportStatus(t, second, corev1.PodSucceeded, map[string]corev1.ContainerState{main: ended(0), "side": ended(0)})
	r.awaitStates(t, pod, corev1.PodSucceeded, map[string]bool{main: true, "side": true})
	assert.EqualValues(t, 0, pod.Status.ContainerStatuses[0].State.Terminated.ExitCode)
}

// awaitRemotePod waits until a remote pod with another UID is scheduled.
func (r *rig) awaitRemotePod(t *testing.T, name string, not types.UID) *corev1.Pod {
	t.Helper()
	remotePod := &corev1.Pod{}
	require.Eventually(t, func() bool {
		return r.milan.Get(t.Context(), client.ObjectKey{Namespace: "shop-rome", Name: name}, remotePod) == nil && remotePod.UID != not && remotePod.Spec.NodeName != ""
	}, soon, tick, "the remote pod is scheduled")
	return remotePod
}

// reportStatus writes the status of a remote pod as its kubelet does.
func (r *rig) reportStatus(t *testing.T, remotePod *corev1.Pod, phase corev1.PodPhase, states map[string]corev1.ContainerState) {
	t.Helper()
	status := corev1.PodStatus{Phase: phase}
	for i := range remotePod.Spec.Containers {
		name := remotePod.Spec.Containers[i].Name
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{Name: name, State: states[name], Ready: states[name].Running != nil})
	}
	body, err := json.Marshal(map[string]any{"status": status})
	require.NoError(t, err)
	require.NoError(t, r.milan.Status().Patch(t.Context(), remotePod, client.RawPatch(types.MergePatchType, body)))
}

// awaitStates waits until the local pod has a phase, and its containers have terminated or not.
func (r *rig) awaitStates(t *testing.T, pod *corev1.Pod, phase corev1.PodPhase, terminated map[string]bool) {
	t.Helper()
	planetest.Until(t, func(t planetest.T) bool {
		require.NoError(t, r.rome.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
		got := map[string]bool{}
		for i := range pod.Status.ContainerStatuses {
			got[pod.Status.ContainerStatuses[i].Name] = pod.Status.ContainerStatuses[i].State.Terminated != nil
		}
		return pod.Status.Phase == phase && assert.ObjectsAreEqual(terminated, got)
	}, soon, tick, "the local pod is %s with containers %v", phase, terminated)
}

func restartsOf(pod *corev1.Pod, container string) int32 {
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].Name == container {
			return pod.Status.ContainerStatuses[i].RestartCount
		}
	}
	return -1
}
