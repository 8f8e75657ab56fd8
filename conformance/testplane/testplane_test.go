package testplane_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/longshore-dev/longshore/conformance/testplane"
	"github.com/longshore-dev/longshore/conformance/testplane/binary"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
)

const (
	podTimeout  = 2 * time.Minute
	goneTimeout = 2 * time.Minute
	poll        = 25 * time.Millisecond
)

// ownerEnvironment makes the test binary a process that starts a cluster in the folder
// it names, reports that, and waits to be killed.
const ownerEnvironment = "PLANE_TEST_OWNER_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(ownerEnvironment); dir != "" {
		ownCluster(dir)
	}
	os.Exit(m.Run())
}

func ownCluster(dir string) {
	c, err := testplane.Start(context.Background(), testplane.Options{Name: "owned", Dir: dir})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	if err := c.StartKwok(context.Background(), testplane.KwokOptions{}); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ready")
	select {}
}

func pod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "example.com/none:1"}}},
	}
}

func createPod(t *testing.T, client kubernetes.Interface, pod *corev1.Pod) {
	t.Helper()
	_, err := client.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	require.NoError(t, err)
}

func phase(t planetest.T, client kubernetes.Interface, name string) *corev1.Pod {
	t.Helper()
	p, err := client.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return p
}

func running(t *testing.T, client kubernetes.Interface, name string) *corev1.Pod {
	t.Helper()
	planetest.Until(t, func(t planetest.T) bool { return phase(t, client, name).Status.Phase == corev1.PodRunning }, podTimeout, poll)
	return phase(t, client, name)
}

// recorded are the processes that the cluster in dir has noted.
func recorded(t planetest.T, dir string) []int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "processes", "*.json"))
	require.NoError(t, err)
	var pids []int
	for _, file := range files {
		base := filepath.Base(file)
		pid, err := strconv.Atoi(base[:len(base)-len(".json")])
		require.NoError(t, err)
		pids = append(pids, pid)
	}
	return pids
}

func gone(pid int) bool { return syscall.Kill(pid, 0) == syscall.ESRCH }

func TestTwoPlanesRunPodsSideBySideAndLeaveNothing(t *testing.T) {
	t.Parallel()
	planetest.NeedsControlPlane(t)
	clusters := make([]*testplane.Cluster, 2)
	errs := make(chan error, len(clusters))
	dirs := []string{filepath.Join(t.TempDir(), "rome"), filepath.Join(t.TempDir(), "milan")}
	began := time.Now()
	for i, dir := range dirs {
		go func() {
			var err error
			clusters[i], err = testplane.Start(t.Context(), testplane.Options{Name: filepath.Base(dir), Dir: dir})
			errs <- err
		}()
	}
	for range clusters {
		require.NoError(t, <-errs)
	}
	t.Logf("two planes serve after %s", time.Since(began))
	assert.NotEqual(t, clusters[0].Address(), clusters[1].Address())
	for _, c := range clusters {
		t.Cleanup(func() { assert.NoError(t, c.Kill()) }) // no-op unless the test ends early
		planetest.SimulateNodes(t, c, "node-of-"+c.Name)
		client := planetest.Client(t, c)
		createPod(t, client, pod("web", ""))
		p := running(t, client, "web")
		assert.Equal(t, "node-of-"+c.Name, p.Spec.NodeName)
		assert.False(t, net.ParseIP(p.Status.PodIP).IsLoopback(), "EndpointSlices refuse loopback addresses")
		assert.NotNil(t, net.ParseIP(p.Status.PodIP))
	}
	t.Logf("a pod runs in each after %s", time.Since(began))

	for i, c := range clusters {
		pids := recorded(t, dirs[i])
		assert.Len(t, pids, 2, "control plane and kwok")
		assert.Contains(t, pids, c.PID())
		stopping := time.Now()
		require.NoError(t, c.Stop(t.Context()))
		t.Logf("%s stopped in %s", c.Name, time.Since(stopping))
		for _, pid := range pids {
			assert.True(t, gone(pid), "process %d of %s is gone", pid, c.Name)
		}
		assert.NoError(t, c.Stop(t.Context()), "stopping twice is fine")
		require.NoError(t, os.RemoveAll(dirs[i]))
		assert.NoDirExists(t, dirs[i])
	}
}

func TestKwokLeavesOtherNodesAlone(t *testing.T) {
	t.Parallel()
	c := planetest.ForTest(t, "selective")
	client := planetest.Client(t, c)
	virtual := testplane.FakeNode("virtual", nil)
	delete(virtual.Labels, testplane.SimulatedLabel)
	_, err := client.CoreV1().Nodes().Create(t.Context(), virtual, metav1.CreateOptions{})
	require.NoError(t, err)
	createPod(t, client, pod("on-virtual", "virtual"))
	planetest.SimulateNodes(t, c, "simulated")
	// The pod of the other node came first: once this one runs, that one was passed over.
	createPod(t, client, pod("on-simulated", "simulated"))
	running(t, client, "on-simulated")
	assert.Equal(t, corev1.PodPending, phase(t, client, "on-virtual").Status.Phase)
	node, err := client.CoreV1().Nodes().Get(t.Context(), "virtual", metav1.GetOptions{})
	require.NoError(t, err)
	for _, condition := range node.Status.Conditions {
		assert.NotEqual(t, corev1.ConditionTrue, condition.Status, "no kubelet reports for the virtual node")
	}
}

func TestAKwokThatEndsIsNoticedAndCanBeStartedAgain(t *testing.T) {
	t.Parallel()
	c := planetest.ForTest(t, "kwok")
	assert.Nil(t, c.KwokDone(), "none was started yet")
	planetest.SimulateNodes(t, c, "simulated")
	first := c.KwokDone()
	for _, pid := range recorded(t, c.Dir) {
		if pid != c.PID() {
			require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		}
	}
	<-first
	require.NoError(t, c.StartKwok(t.Context(), testplane.KwokOptions{}))
	select {
	case <-c.KwokDone():
		require.Fail(t, "the second kwok has ended")
	case <-c.Done():
		require.Fail(t, "the control plane has ended")
	default:
	}
	client := planetest.Client(t, c)
	createPod(t, client, pod("web", "simulated"))
	running(t, client, "web")
}

// What the simulated nodes know is late by as long as their process is stopped.
func TestASimulatedNodeEndsOnlyThePodThatIsDeleted(t *testing.T) {
	t.Parallel()
	c := planetest.ForTest(t, "deletion")
	planetest.SimulateNodes(t, c, "simulated")
	client := planetest.Client(t, c)
	pods := client.CoreV1().Pods(metav1.NamespaceDefault)
	signal := func(s syscall.Signal) {
		for _, pid := range recorded(t, c.Dir) {
			if pid != c.PID() {
				require.NoError(t, syscall.Kill(pid, s))
			}
		}
	}
	const names = 10
	name := func(i int) string { return "web-" + strconv.Itoa(i) }
	for i := range names {
		createPod(t, client, pod(name(i), "simulated"))
	}
	for i := range names {
		running(t, client, name(i))
	}
	signal(syscall.SIGSTOP)
	second := map[string]types.UID{}
	for i := range names {
		require.NoError(t, pods.Delete(t.Context(), name(i), metav1.DeleteOptions{}))
		require.NoError(t, pods.Delete(t.Context(), name(i), *metav1.NewDeleteOptions(0)))
		createPod(t, client, pod(name(i), "simulated"))
		second[name(i)] = phase(t, client, name(i)).UID
	}
	createPod(t, client, pod("last", "simulated"))
	signal(syscall.SIGCONT)
	running(t, client, "last")
	for i := range names {
		assert.Equal(t, second[name(i)], running(t, client, name(i)).UID, "the second pod of this name runs")
	}
	// A pod that is deleted and not replaced goes, whatever its grace period is.
	require.NoError(t, pods.Delete(t.Context(), "last", metav1.DeleteOptions{}))
	planetest.Until(t, func(t planetest.T) bool {
		_, err := pods.Get(t.Context(), "last", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}, podTimeout, poll)
}

func TestACrashedPlaneComesBackWithItsData(t *testing.T) {
	t.Parallel()
	c := planetest.ForTest(t, "crash", planetest.Own)
	client := planetest.Client(t, c)
	planetest.SimulateNodes(t, c, "simulated")
	createPod(t, client, pod("web", ""))
	before := running(t, client, "web")

	require.ErrorContains(t, c.Restart(t.Context()), "still runs")
	require.NoError(t, c.Crash())
	<-c.Done()
	_, err := client.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), "web", metav1.GetOptions{})
	require.Error(t, err)

	began := time.Now()
	require.NoError(t, c.Restart(t.Context()))
	t.Logf("served again after %s", time.Since(began))
	// The client from before the crash still trusts and is trusted.
	assert.Equal(t, before.UID, phase(t, client, "web").UID)
	createPod(t, client, pod("after", ""))
	running(t, client, "after")

	require.NoError(t, c.Stop(t.Context()))
	require.ErrorContains(t, c.Restart(t.Context()), "was stopped")
	moved, err := testplane.Start(t.Context(), testplane.Options{Name: "moved", Dir: c.Dir})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, moved.Kill()) })
	assert.NotEqual(t, c.Address(), moved.Address())
	assert.Equal(t, before.UID, phase(t, planetest.Client(t, moved), "web").UID, "the directory holds the data, whatever the address")
}

func TestAClusterEndsWithItsOwner(t *testing.T) {
	t.Parallel()
	planetest.NeedsControlPlane(t)
	dir := t.TempDir()
	owner := startOwner(t, dir)
	pids := recorded(t, dir)
	require.Len(t, pids, 2)
	_, err := testplane.Start(t.Context(), testplane.Options{Name: "second", Dir: dir})
	require.ErrorContains(t, err, "processes of an earlier run still use")

	require.NoError(t, owner.Process.Kill())
	require.Error(t, owner.Wait())
	for _, pid := range pids {
		assert.Eventually(t, func() bool { return gone(pid) }, goneTimeout, poll, "process %d ends with its owner", pid)
	}
	names, err := testplane.StopLeftover(t.Context(), dir)
	require.NoError(t, err)
	assert.Empty(t, names, "nothing was left to stop")
}

func TestADetachedClusterOutlivesItsOwnerUntilStopped(t *testing.T) {
	t.Parallel()
	planetest.NeedsControlPlane(t)
	dir := t.TempDir()
	c, err := testplane.Start(t.Context(), testplane.Options{Name: "detached", Dir: dir, Detach: true})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Kill()) })
	names, err := testplane.StopLeftover(t.Context(), dir)
	require.NoError(t, err)
	assert.Equal(t, []string{"control plane detached"}, names)
	<-c.Done()
}

func TestAnInterruptedStartLeavesNothing(t *testing.T) {
	t.Parallel()
	planetest.NeedsControlPlane(t)
	dir := t.TempDir()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	started := make(chan error, 1)
	go func() {
		_, err := testplane.Start(ctx, testplane.Options{Name: "interrupted", Dir: dir})
		started <- err
	}()
	var pids []int
	planetest.Until(t, func(t planetest.T) bool {
		pids = recorded(t, dir)
		return len(pids) > 0
	}, podTimeout, time.Millisecond)
	interrupt()
	require.ErrorIs(t, <-started, context.Canceled)
	for _, pid := range pids {
		assert.True(t, gone(pid))
	}
	assert.Empty(t, recorded(t, dir))
}

func TestStartSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	planetest.NeedsControlPlane(t)
	busy := func(t *testing.T, port int) string {
		t.Helper()
		address, err := testplane.ReserveAddress()
		require.NoError(t, err)
		address.Release()
		listener, err := net.Listen("tcp", net.JoinHostPort(address.IP, strconv.Itoa(port)))
		require.NoError(t, err)
		t.Cleanup(func() { listener.Close() })
		return address.IP
	}
	cases := map[string]struct {
		options func(t *testing.T) testplane.Options
		want    []string
	}{
		"another process serves on the port": {
			func(t *testing.T) testplane.Options {
				return testplane.Options{Address: busy(t, testplane.DefaultPort)}
			},
			[]string{"port conflict", ":6443", "another process serves"},
		},
		"another process serves on a port of one's choice": {
			func(t *testing.T) testplane.Options { return testplane.Options{Address: busy(t, 7443), Port: 7443} },
			[]string{"port conflict", ":7443"},
		},
		"another cluster has the address": {
			func(t *testing.T) testplane.Options {
				t.Helper()
				address, err := testplane.ReserveAddress()
				require.NoError(t, err)
				t.Cleanup(address.Release)
				return testplane.Options{Address: address.IP}
			},
			[]string{"taken by another cluster"},
		},
		"the address is not loopback": {
			func(*testing.T) testplane.Options { return testplane.Options{Address: "192.0.2.7"} },
			[]string{"is not a loopback address"},
		},
		"a component refuses its flags": {
			func(*testing.T) testplane.Options {
				return testplane.Options{APIServerArgs: []string{"--no-such-flag"}}
			},
			[]string{"exit status 1", "no-such-flag", "kube-apiserver", "control-plane.log"},
		},
		"the control plane fails after its start": {
			func(*testing.T) testplane.Options {
				return testplane.Options{APIServerArgs: []string{"--audit-policy-file=/nowhere"}}
			},
			[]string{"exit status 1", "/nowhere"},
		},
		"the CIDR is none": {
			func(*testing.T) testplane.Options { return testplane.Options{ServiceCIDR: "ten"} },
			[]string{"Options.ServiceCIDR"},
		},
		"the binary cannot run": {
			func(*testing.T) testplane.Options { return testplane.Options{Binary: "/nowhere/testplane"} },
			[]string{"/nowhere/testplane"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := tc.options(t)
			options.Name, options.Dir = "wrong", t.TempDir()
			_, err := testplane.Start(t.Context(), options)
			require.Error(t, err)
			for _, want := range tc.want {
				require.ErrorContains(t, err, want)
			}
			assert.Empty(t, recorded(t, options.Dir), "nothing is left running")
			assert.NotErrorIs(t, err, context.DeadlineExceeded, "no timeout was waited for")
		})
	}
}

func TestAMissingBinaryIsAnErrorThatNamesTheCommand(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv(binary.Environment, "")
	_, err := testplane.Start(t.Context(), testplane.Options{Name: "missing", Dir: t.TempDir()})
	require.ErrorIs(t, err, binary.ErrMissing)
	assert.ErrorContains(t, err, "go run ./conformance/testplane/cmd build")
}

func TestReservedAddressesDiffer(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 20 {
		address, err := testplane.ReserveAddress()
		require.NoError(t, err)
		t.Cleanup(address.Release)
		assert.False(t, seen[address.IP])
		seen[address.IP] = true
		_, err = testplane.HoldAddress(address.IP)
		assert.ErrorContains(t, err, "taken")
	}
}

// A routed address is one of an interface of this machine; which one, only the caller knows.
func TestARoutedAddressIsGiven(t *testing.T) {
	for name, row := range map[string]struct{ address, want string }{
		"no address":                     {"", "Options.Routed needs Options.Address"},
		"the address of another machine": {"192.0.2.7", "cannot assign requested address"},
	} {
		t.Run(name, func(t *testing.T) {
			options := testplane.Options{Name: "rome", Dir: t.TempDir(), Routed: true, Address: row.address}
			_, err := testplane.Start(t.Context(), options)
			require.ErrorContains(t, err, row.want)
		})
	}
}
