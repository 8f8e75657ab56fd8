package e2e_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
)

// patience is how long a cluster may take to notice that a node is lost, and to recover.
const patience = 2 * soon

// killContainer kills the first process of the containers of the cluster whose program has the
// name and, if it is given, the first argument. All processes in the world are of the tests.
func (c *cluster) killContainer(t *testing.T, program, argument string) {
	t.Helper()
	group := []byte(c.node.Config.CgroupRoot() + "/")
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	killed := 0
	for _, file := range commands {
		content, err := os.ReadFile(file)
		if err != nil {
			continue // It has ended.
		}
		args := strings.Split(string(content), "\x00")
		if args[0] != program || argument != "" && (len(args) < 2 || args[1] != argument) {
			continue
		}
		groups, err := os.ReadFile(filepath.Join(filepath.Dir(file), "cgroup"))
		if err != nil || !bytes.Contains(groups, group) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		require.NoError(t, err)
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		killed++
	}
	require.Positive(t, killed, "%s %s runs in %s", program, argument, c.name)
}

// identity is what changes when a pod is created again, or its container is started again.
type identity struct {
	uid, container string
	restarts       int32
}

// identities returns those of the pods of a selection.
func (c *cluster) identities(t planetest.T, namespace, app string) map[string]identity {
	t.Helper()
	list := &corev1.PodList{}
	require.NoError(t, c.List(t.Context(), list, client.InNamespace(namespace), client.MatchingLabels{"app": app}))
	found := map[string]identity{}
	for i := range list.Items {
		pod := &list.Items[i]
		require.NotEmpty(t, pod.Status.ContainerStatuses, pod.Name)
		status := pod.Status.ContainerStatuses[0]
		found[pod.Name] = identity{string(pod.UID), status.ContainerID, status.RestartCount}
	}
	return found
}

// scale changes the number of web pods, and waits until both clusters have them.
func (w *world) scale(t *testing.T, replicas int) {
	t.Helper()
	w.rome.kubectl(t, "-n", "shop", "scale", "deployment", "web", "--replicas="+strconv.Itoa(replicas))
	w.rome.readyPods(t, "shop", "app=web", replicas)
	planetest.Until(t, func(t planetest.T) bool {
		return assert.Len(t, w.milan.identities(t, "shop-"+consumerID, "web"), replicas) &&
			assert.Len(t, w.rome.identities(t, "shop", "web"), replicas)
	}, soon, poll, "both clusters have as many pods")
}

// Each process of Longshore is killed. The kubelet starts it again; the pods that run are not
// touched, and pods that are created and deleted afterwards are as well.
func (w *world) killLongshore(t *testing.T) {
	for _, row := range []struct {
		cluster           *cluster
		program, argument string
	}{
		{w.rome, "/usr/bin/virtual-kubelet", ""},
		{w.rome, "/usr/bin/longshore", "manager"},
		{w.milan, "/usr/bin/longshore", "manager"},
		{w.rome, "/usr/bin/longshore", "webhook"},
		{w.milan, "/usr/bin/longshore", "webhook"},
	} {
		name := row.cluster.name + " " + filepath.Base(row.program) + " " + row.argument
		t.Run(strings.TrimSpace(name), func(t *testing.T) {
			local, remote := w.rome.identities(t, "shop", "web"), w.milan.identities(t, "shop-"+consumerID, "web")
			row.cluster.killContainer(t, row.program, row.argument)
			w.scale(t, 3)
			w.scale(t, 2)
			w.waitForLongshore(t)
			assert.Equal(t, local, w.rome.identities(t, "shop", "web"), "the pods of rome")
			assert.Equal(t, remote, w.milan.identities(t, "shop-"+consumerID, "web"), "the remote pods")
		})
	}
}

// waitForLongshore waits until all Deployments of Longshore are available.
func (w *world) waitForLongshore(t *testing.T) {
	t.Helper()
	for _, c := range []*cluster{w.rome, w.milan} {
		planetest.Until(t, func(t planetest.T) bool {
			list := &appsv1.DeploymentList{}
			require.NoError(t, c.List(t.Context(), list))
			for i := range list.Items {
				d := &list.Items[i]
				require.Equal(t, d.Status.Replicas, d.Status.AvailableReplicas, "%s/%s", d.Namespace, d.Name)
			}
			return true
		}, soon, poll, "the Deployments of %s are available", c.name)
	}
}

// The kubelet of the provider dies, and the containers go on. Its pods are not ready until it
// is back; none is created again.
func (w *world) killProviderKubelet(t *testing.T) {
	local, remote := w.rome.identities(t, "shop", "web"), w.milan.identities(t, "shop-"+consumerID, "web")
	require.NoError(t, w.milan.node.Do("kill kubelet"))
	planetest.Until(t, func(t planetest.T) bool {
		list := &corev1.PodList{}
		require.NoError(t, w.rome.List(t.Context(), list, client.InNamespace("shop"), client.MatchingLabels{"app": "web"}))
		for i := range list.Items {
			require.False(t, podIsReady(&list.Items[i]))
		}
		return true
	}, patience, 5*poll, "the pods of rome are not ready")
	for _, pod := range w.rome.pods(t, "shop", "web") {
		assert.Contains(t, w.rome.get(t, "default", "client", "http://"+pod.Status.PodIP+":8080/"), "hello", "the container serves")
	}
	require.NoError(t, w.milan.node.Do("start kubelet"))
	w.rome.readyPods(t, "shop", "app=web", 2)
	assert.Equal(t, local, w.rome.identities(t, "shop", "web"), "the pods of rome")
	assert.Equal(t, remote, w.milan.identities(t, "shop-"+consumerID, "web"), "the remote pods")
}

func (c *cluster) pods(t planetest.T, namespace, app string) []corev1.Pod {
	t.Helper()
	list := &corev1.PodList{}
	require.NoError(t, c.List(t.Context(), list, client.InNamespace(namespace), client.MatchingLabels{"app": app}))
	return list.Items
}

// The provider's administrator drains a node. The remote pods are created again, on the node
// when it takes pods; the pods of rome stay.
func (w *world) drainProvider(t *testing.T) {
	local, remote := w.rome.identities(t, "shop", "web"), w.milan.identities(t, "shop-"+consumerID, "web")
	w.milan.kubectl(t, "drain", providerID, "--pod-selector=app=web", "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=1m")
	w.milan.kubectl(t, "uncordon", providerID)
	planetest.Until(t, func(t planetest.T) bool {
		now := w.milan.identities(t, "shop-"+consumerID, "web")
		for name, before := range remote {
			require.NotEmpty(t, now[name].uid, "%s exists", name)
			require.NotEqual(t, before.uid, now[name].uid, "%s was created again", name)
		}
		return true
	}, soon, poll, "the remote pods were replaced")
	w.rome.readyPods(t, "shop", "app=web", 2)
	for name, now := range w.rome.identities(t, "shop", "web") {
		assert.Equal(t, local[name].uid, now.uid, "the pods of rome stay")
	}
}

// The network between the clusters is cut, and heals. The virtual node is not ready meanwhile;
// what runs is not touched.
func (w *world) cutNetwork(t *testing.T) {
	local, remote := w.rome.identities(t, "shop", "web"), w.milan.identities(t, "shop-"+consumerID, "web")
	require.NoError(t, w.milan.node.Disconnect(t.Context()))
	planetest.Until(t, func(t planetest.T) bool {
		found := &corev1.Node{}
		require.NoError(t, w.rome.Get(t.Context(), client.ObjectKey{Name: providerID}, found))
		return assert.NotEqual(t, corev1.ConditionTrue, readiness(found))
	}, patience, 5*poll, "the virtual node is not ready")
	require.NoError(t, w.milan.node.Connect(t.Context()))
	w.rome.waitForNode(t, providerID)
	w.rome.readyPods(t, "shop", "app=web", 2)
	assert.Equal(t, local, w.rome.identities(t, "shop", "web"), "the pods of rome")
	assert.Equal(t, remote, w.milan.identities(t, "shop-"+consumerID, "web"), "the remote pods")
	w.scale(t, 3)
	w.scale(t, 2)
}

// The control plane of the provider is killed and starts again.
func (w *world) killProviderControlPlane(t *testing.T) {
	remote := w.milan.identities(t, "shop-"+consumerID, "web")
	require.NoError(t, w.milan.node.Do("kill control-plane"))
	require.NoError(t, w.milan.node.Do("start control-plane"))
	w.scale(t, 3)
	w.scale(t, 2)
	assert.Equal(t, remote, w.milan.identities(t, "shop-"+consumerID, "web"), "the remote pods")
}

func readiness(found *corev1.Node) corev1.ConditionStatus {
	for _, condition := range found.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status
		}
	}
	return corev1.ConditionUnknown
}
