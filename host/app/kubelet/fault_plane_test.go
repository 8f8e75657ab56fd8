package kubelet_test

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane"
	"github.com/longshore-dev/longshore/conformance/testplane/faultproxy"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/internal/testkit/childprocess"
)

const (
	// requestTimeout is the --client-timeout of the virtual kubelet in these tests. On a busy machine,
	// requests take seconds.
	requestTimeout = 6 * time.Second
	heartbeat      = 5 * time.Second
)

// faults is a rig with the virtual kubelet in a process of its own and a proxy in front of each
// API server.
type faults struct {
	*rig

	consumerProxy, providerProxy *faultproxy.Requests
	options                      childOptions
	process                      *childprocess.Process
}

func newFaults(t *testing.T) *faults {
	t.Helper()
	f := &faults{rig: newRig(t)}
	f.consumerProxy = startProxy(t, f.consumer, f.consumer.RESTConfig())
	certificate, key, err := f.provider.IssueClientCert("milan-1-through-a-proxy", []string{"rome"})
	require.NoError(t, err)
	romeConfig := rest.AnonymousClientConfig(f.provider.RESTConfig())
	romeConfig.CertData, romeConfig.KeyData = certificate, key
	f.providerProxy = startProxy(t, f.provider, romeConfig)
	kubeconfig := func(c *testplane.Cluster, proxy *faultproxy.Requests) []byte {
		content, err := c.KubeconfigFor(proxy.URL(), certificate, key)
		require.NoError(t, err)
		return content
	}

	f.runManager()
	f.createNodeWithoutKubelet(t)
	f.keepNodeReady(t, "milan-still")
	vn := virtualNode()
	vn.Spec.OffloadingPatch = &offloadingv1beta1.OffloadingPatch{Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}}
	f.create(f.rome, vn, f.secret(kubeconfig(f.provider, f.providerProxy)))
	f.mapNamespace()
	home := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(home, kubeconfig(f.consumer, f.consumerProxy), 0o600))
	f.options = childOptions{Kubeconfig: home, NodeIP: f.consumer.Address(), PolicyCache: f.policyCache, ClientTimeout: requestTimeout}
	f.process = childprocess.Start(t, f.options)
	return f
}

func startProxy(t *testing.T, c *testplane.Cluster, user *rest.Config) *faultproxy.Requests {
	t.Helper()
	certificate, key, err := c.IssueServingCert("fault-proxy", nil, "127.0.0.1")
	require.NoError(t, err)
	proxy, err := faultproxy.StartRequests(user, certificate, key)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, proxy.Close()) })
	return proxy
}

// keepNodeReady renews the lease of a node until the test ends.
func (r *rig) keepNodeReady(t *testing.T, name string) {
	t.Helper()
	ready := `{"status":{"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady"}]}}`
	require.NoError(t, r.milan.Status().Patch(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}},
		client.RawPatch(types.StrategicMergePatchType, []byte(ready))))
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: ptr.To[int32](40), RenewTime: ptr.To(metav1.NowMicro())},
	}
	r.create(r.milan, lease)
	ctx, ended := t.Context(), make(chan struct{})
	t.Cleanup(func() { <-ended })
	go func() {
		defer close(ended)
		ticker := time.NewTicker(heartbeat)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			before := lease.DeepCopy()
			lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
			_ = r.milan.Patch(ctx, lease, client.MergeFrom(before)) // the next heartbeat retries
		}
	}()
}

// restart kills the virtual kubelet, heals both links, calls a function and starts another
// virtual kubelet.
func (f *faults) restart(t *testing.T, meanwhile func()) {
	t.Helper()
	f.process.Kill(t)
	f.consumerProxy.Heal()
	f.providerProxy.Heal()
	meanwhile()
	// f.t, because the process outlives the subtest.
	f.process = childprocess.Start(f.t, f.options)
}

// requests matches requests for resources by their verb.
func requests(method string, resources ...string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return r.Method == method && isRequestFor(r, resources)
	}
}

func isRequestFor(r *http.Request, resources []string) bool {
	return slices.ContainsFunc(strings.Split(r.URL.Path, "/"), func(part string) bool { return slices.Contains(resources, part) })
}

func allRequests(*http.Request) bool { return true }

func (f *faults) awaitBroken(t *testing.T, proxy *faultproxy.Requests, n int, what string) {
	t.Helper()
	require.Eventually(t, func() bool { return proxy.Broken() >= n }, soon, tick, what)
}

// longGracePod returns a pod of the virtual node with a grace period of ten minutes.
func longGracePod(name string) *corev1.Pod {
	pod := podOn(nodeName, name)
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](600)
	return pod
}

var running = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}

// reportRunning reports a remote pod as Running and waits until the local pod is.
func (f *faults) reportRunning(t *testing.T, pod, remotePod *corev1.Pod) {
	t.Helper()
	f.reportStatus(t, remotePod, corev1.PodRunning, map[string]corev1.ContainerState{remotePod.Spec.Containers[0].Name: running})
	f.awaitPhase(t, pod, corev1.PodRunning)
}

// awaitPhase waits until the local pod, with the same UID, has a phase.
func (f *faults) awaitPhase(t *testing.T, pod *corev1.Pod, phase corev1.PodPhase) {
	t.Helper()
	uid := pod.UID
	planetest.Until(t, func(t planetest.T) bool {
		require.NoError(t, f.rome.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
		require.Equal(t, phase, pod.Status.Phase)
		return true
	}, soon, tick, "the local pod %s is %s", pod.Name, phase)
	assert.Equal(t, uid, pod.UID, "the local pod was not replaced")
}

// awaitExactly waits until there are local pods with these names only, each with its own
// ShadowPod and remote pod, and no other ShadowPods and remote pods.
func (f *faults) awaitExactly(t *testing.T, names ...string) {
	t.Helper()
	slices.Sort(names)
	planetest.Until(t, func(t planetest.T) bool {
		locals, shadows, pods := &corev1.PodList{}, &offloadingv1beta1.ShadowPodList{}, &corev1.PodList{}
		require.NoError(t, f.rome.List(t.Context(), locals, client.InNamespace("shop")))
		require.NoError(t, f.milan.List(t.Context(), shadows, client.InNamespace("shop-rome")))
		require.NoError(t, f.milan.List(t.Context(), pods, client.InNamespace("shop-rome")))
		var localNames, shadowNames, remoteNames []string
		localUIDs, shadowUIDs := map[string]string{}, map[string]types.UID{}
		for i := range locals.Items {
			localNames = append(localNames, locals.Items[i].Name)
			localUIDs[locals.Items[i].Name] = string(locals.Items[i].UID)
		}
		for i := range shadows.Items {
			shadowNames = append(shadowNames, shadows.Items[i].Name)
			shadowUIDs[shadows.Items[i].Name] = shadows.Items[i].UID
			require.Equal(t, localUIDs[shadows.Items[i].Name], shadows.Items[i].Annotations[remote.LocalPodUIDAnnotation])
		}
		for i := range pods.Items {
			remoteNames = append(remoteNames, pods.Items[i].Name)
			require.Equal(t, localUIDs[pods.Items[i].Name], pods.Items[i].Annotations[remote.LocalPodUIDAnnotation])
			require.Equal(t, shadowUIDs[pods.Items[i].Name], metav1.GetControllerOf(&pods.Items[i]).UID)
		}
		require.ElementsMatch(t, names, localNames, "local pods")
		require.ElementsMatch(t, names, shadowNames, "ShadowPods")
		require.ElementsMatch(t, names, remoteNames, "remote pods")
		return true
	}, soon, tick)
}

// cleanUp deletes all pods with a grace period of zero and waits until no object is left.
func (f *faults) cleanUp(t *testing.T) {
	t.Helper()
	require.NoError(t, f.rome.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace("shop"), client.GracePeriodSeconds(0)))
	planetest.Until(t, func(t planetest.T) bool {
		pods := &corev1.PodList{}
		require.NoError(t, f.milan.List(t.Context(), pods, client.InNamespace("shop-rome")))
		for i := range pods.Items {
			if pods.Items[i].DeletionTimestamp != nil {
				require.NoError(t, client.IgnoreNotFound(f.milan.Delete(t.Context(), &pods.Items[i], client.GracePeriodSeconds(0))))
			}
		}
		return len(pods.Items) == 0
	}, soon, tick, "the remote pods are deleted")
	f.awaitExactly(t)
}

// Virtual kubelets are killed and their requests fail: no pod is lost, runs twice or is left
// behind.
func TestLongKilledVirtualKubeletsAndFailingRequests(t *testing.T) {
	t.Parallel()
	f := newFaults(t)
	first := longGracePod("first")
	f.create(f.rome, first)
	f.reportRunning(t, first, f.awaitRemotePod(t, "first", ""))
	f.cleanUp(t)

	for name, run := range map[string]func(*faults, *testing.T){
		"killed between the creation of a ShadowPod and the first status": (*faults).testKilledBeforeStatus,
		"killed during the deletion of a pod":                             (*faults).testKilledDuringDeletion,
		"killed during an eviction":                                       (*faults).testKilledDuringEviction,
		"requests without a response":                                     (*faults).testUnansweredRequests,
		"a provider that responds with 429 after an outage":               (*faults).testBusyProvider,
		"labels that change during an outage":                             (*faults).testLabelsDuringOutage,
	} {
		t.Run(name, func(t *testing.T) {
			run(f, t)
			f.cleanUp(t)
		})
	}
}
