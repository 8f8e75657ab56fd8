package testplane_test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/longshore-dev/longshore/conformance/testplane"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
)

// separate starts a cluster whose controllers have processes of their own, with a simulated node.
func separate(t *testing.T, options testplane.Options) (*testplane.Cluster, kubernetes.Interface) {
	t.Helper()
	planetest.NeedsControlPlane(t)
	options.Name, options.Dir, options.SeparateProcesses = "separate", t.TempDir(), true
	c, err := testplane.Start(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Kill()) })
	client, err := kubernetes.NewForConfig(c.RESTConfig())
	require.NoError(t, err)
	_, err = client.CoreV1().Nodes().Create(t.Context(), testplane.FakeNode("worker", nil), metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, c.StartKwok(t.Context(), testplane.KwokOptions{}))
	return c, client
}

func TestControllersWithProcessesOfTheirOwn(t *testing.T) {
	c, client := separate(t, testplane.Options{})
	for _, name := range []string{"kube-controller-manager separate", "kube-scheduler separate"} {
		assert.Regexp(t, name+` \(pid \d+\) running`, c.Diagnose(1))
	}
	createPod(t, client, pod("first", ""))
	running(t, client, "first")

	require.NoError(t, c.RestartControllers(t.Context(), nil, []string{"--no-such-flag"}))
	planetest.Until(t, func(planetest.T) bool {
		return strings.Contains(c.Diagnose(1), "ended: exit status")
	}, podTimeout, poll)
	assert.Contains(t, c.Diagnose(3), "unknown flag: --no-such-flag")

	require.NoError(t, c.RestartControllers(t.Context(), []string{"--kube-api-qps=20"}, nil))
	createPod(t, client, pod("second", ""))
	running(t, client, "second")
}

func TestControllersEndWithTheirControlPlane(t *testing.T) {
	c, client := separate(t, testplane.Options{})
	for name, end := range map[string]func() error{
		"after-a-crash": c.Crash, "ended-by-itself": func() error { return syscall.Kill(c.PID(), syscall.SIGKILL) },
	} {
		require.NoError(t, end())
		<-c.Done()
		require.NoError(t, c.Restart(t.Context()))
		createPod(t, client, pod(name, ""))
		running(t, client, name)
		assert.Equal(t, 1, strings.Count(c.Diagnose(1), "kube-scheduler separate (pid"), name)
	}
	require.NoError(t, c.Stop(t.Context()))
	left, err := testplane.StopLeftover(t.Context(), c.Dir)
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestAControllerThatDoesNotStartIsReported(t *testing.T) {
	planetest.NeedsControlPlane(t)
	_, err := testplane.Start(t.Context(), testplane.Options{
		Name: "separate", Dir: t.TempDir(), SeparateProcesses: true, ManagerArgs: []string{"--no-such-flag"},
	})
	require.ErrorContains(t, err, "unknown flag: --no-such-flag")
}

func TestControllersOfOneProcessCannotBeRestarted(t *testing.T) {
	require.ErrorContains(t, (&testplane.Cluster{Name: "one"}).RestartControllers(t.Context(), nil, nil), "set Options.SeparateProcesses")
}
