package e2e_test

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/hack/e2e/images"
)

const livePod = `
apiVersion: v1
kind: Pod
metadata: {name: live, namespace: shop, labels: {app: live}}
spec:
  terminationGracePeriodSeconds: 2
  containers:
  - name: main
    image: longshore/e2e-app:1
    args: [serve]
    env: [{name: GREETING, value: hello}]
    resources: {requests: {cpu: 50m, memory: 32Mi}, limits: {cpu: 200m, memory: 64Mi}}
    readinessProbe: {httpGet: {path: /readyz, port: 8080}, periodSeconds: 1}
`

// livePods returns the pod of rome and its remote pod.
func (w *world) livePods(t planetest.T) (local, remote *corev1.Pod) {
	t.Helper()
	local, remote = &corev1.Pod{}, &corev1.Pod{}
	require.NoError(t, w.rome.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "live"}, local))
	require.NoError(t, w.milan.Get(t.Context(), client.ObjectKey{Namespace: "shop-" + consumerID, Name: "live"}, remote))
	return local, remote
}

// `kubectl debug` starts an ephemeral container on the provider's node, in the process namespace
// of the container it names, and attaches to it.
func (w *world) debug(t *testing.T) {
	w.rome.apply(t, livePod)
	w.rome.readyPods(t, "shop", "app=live", 1)
	before := w.rome.identities(t, "shop", "live")
	debugger := w.rome.stream(t, "-n", "shop", "debug", "-i", "live", "--profile=baseline", "--container=debugger", "--target=main",
		"--image="+images.App, "--env=PORT=8081", "--env=GREETING=debugging", "--", "/app", "serve")
	// What is written before it is attached is kept.
	_, err := io.WriteString(debugger.in, "from rome\n")
	require.NoError(t, err)
	debugger.until(t, "echo from rome")
	assert.Contains(t, w.rome.kubectl(t, "-n", "shop", "logs", "live", "-c", "debugger"), "serving")
	run := func(args ...string) string {
		return w.rome.kubectl(t, append([]string{"-n", "shop", "exec", "live", "-c", "debugger", "--", "/app"}, args...)...)
	}
	assert.Equal(t, " debugging\n", run("get", "http://localhost:8081/"), "it serves")
	assert.Equal(t, " hello\n", run("get", "http://localhost:8080/"), "it has the network of the pod")
	assert.Contains(t, run("cat", "/proc/1/environ"), "GREETING=hello", "process 1 is that of the container")
	planetest.Until(t, func(t planetest.T) bool {
		local, remote := w.livePods(t)
		for _, pod := range []*corev1.Pod{local, remote} {
			require.Len(t, pod.Status.EphemeralContainerStatuses, 1, "%s", pod.Namespace)
			require.NotNil(t, pod.Status.EphemeralContainerStatuses[0].State.Running, "%s", pod.Namespace)
		}
		return assert.Equal(t, remote.Status.EphemeralContainerStatuses[0].ContainerID, local.Status.EphemeralContainerStatuses[0].ContainerID)
	}, soon, poll, "the ephemeral container runs in both clusters")
	assert.Equal(t, before, w.rome.identities(t, "shop", "live"), "the pod goes on")
}

// An in-place resize changes the limits of the remote container, which goes on.
func (w *world) resize(t *testing.T) {
	local, remote := w.rome.identities(t, "shop", "live"), w.milan.identities(t, "shop-"+consumerID, "live")
	assert.Equal(t, limits{cpu: "20000", memory: "67108864"}, w.limits(t))
	w.rome.kubectl(t, "-n", "shop", "patch", "pod", "live", "--subresource=resize", "--patch",
		`{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"100m"},"limits":{"cpu":"300m","memory":"128Mi"}}}]}}`)
	planetest.Until(t, func(t planetest.T) bool {
		return assert.Equal(t, limits{cpu: "30000", memory: "134217728"}, w.limits(t))
	}, soon, poll, "the cgroup of the remote container has the new limits")
	planetest.Until(t, func(t planetest.T) bool {
		pod, _ := w.livePods(t)
		status := pod.Status.ContainerStatuses[0]
		require.NotNil(t, status.Resources)
		require.Equal(t, "300m", status.Resources.Limits.Cpu().String())
		require.Equal(t, "128Mi", status.Resources.Limits.Memory().String())
		require.Equal(t, "100m", status.AllocatedResources.Cpu().String())
		for _, condition := range pod.Status.Conditions {
			require.NotContains(t, []corev1.PodConditionType{corev1.PodResizePending, corev1.PodResizeInProgress}, condition.Type, condition.Message)
		}
		return true
	}, soon, poll, "the status of the pod of rome has them")
	assert.Equal(t, local, w.rome.identities(t, "shop", "live"), "the pod of rome goes on")
	assert.Equal(t, remote, w.milan.identities(t, "shop-"+consumerID, "live"), "the remote pod goes on")
	w.rome.kubectl(t, "-n", "shop", "delete", "pod", "live")
}

// limits are those of a cgroup: microseconds of CPU in a tenth of a second, and bytes.
type limits struct{ cpu, memory string }

// limits returns those that the container sees of its own cgroup.
func (w *world) limits(t planetest.T) limits {
	t.Helper()
	read := func(path string) string {
		content := w.rome.kubectl(t, "-n", "shop", "exec", "live", "-c", "main", "--", "/app", "cat", "/sys/fs/cgroup/"+path)
		return strings.Fields(content)[0]
	}
	if w.milan.cgroup1 {
		return limits{cpu: read("cpu/cpu.cfs_quota_us"), memory: read("memory/memory.limit_in_bytes")}
	}
	return limits{cpu: read("cpu.max"), memory: read("memory.max")}
}
