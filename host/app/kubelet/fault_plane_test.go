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
)

const (
	// requestLimit is how long the virtual kubelet of these tests waits for an answer.
	requestLimit = 3 * time.Second
	heartbeat    = 5 * time.Second
)

// faults is a rig whose virtual kubelet is a process of its own, with a proxy in front of
// each of its API servers.
type faults struct {
	*rig

	here, there *faultproxy.Requests
	options     childOptions
	process     *child
}

func newFaults(t *testing.T) *faults {
	t.Helper()
	f := &faults{rig: newRig(t)}
	f.here = interpose(t, f.consumer, f.consumer.RESTConfig())
	certificate, key, err := f.provider.IssueClientCert("milan-1-through-a-proxy", []string{"rome"})
	require.NoError(t, err)
	asRome := rest.AnonymousClientConfig(f.provider.RESTConfig())
	asRome.CertData, asRome.KeyData = certificate, key
	f.there = interpose(t, f.provider, asRome)
	kubeconfig := func(c *testplane.Cluster, proxy *faultproxy.Requests) []byte {
		content, err := c.KubeconfigFor(proxy.URL(), certificate, key)
		require.NoError(t, err)
		return content
	}

	f.runManager()
	f.createStillNode(t)
	f.keepNodeReady(t, "milan-still")
	vn := virtualNode()
	vn.Spec.OffloadingPatch = &offloadingv1beta1.OffloadingPatch{Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}}
	f.create(f.rome, vn, f.secret(kubeconfig(f.provider, f.there)))
	f.mapNamespace()
	home := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(home, kubeconfig(f.consumer, f.here), 0o600))
	f.options = childOptions{Kubeconfig: home, NodeIP: f.consumer.Address(), PolicyCache: f.policyCache, ClientTimeout: requestLimit}
	f.process = startChild(t, f.options)
	return f
}

func interpose(t *testing.T, c *testplane.Cluster, user *rest.Config) *faultproxy.Requests {
	t.Helper()
	certificate, key, err := c.IssueServingCert("fault-proxy", nil, "127.0.0.1")
	require.NoError(t, err)
	proxy, err := faultproxy.StartRequests(user, certificate, key)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, proxy.Close()) })
	return proxy
}

// keepNodeReady plays the heartbeat of a node's kubelet until the test ends.
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
			lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
			_ = r.milan.Update(ctx, lease) // the next heartbeat tries again
		}
	}()
}

// restart kills the virtual kubelet, heals both links, calls a function and starts another
// virtual kubelet.
func (f *faults) restart(t *testing.T, meanwhile func()) {
	t.Helper()
	f.process.kill(t)
	f.here.Heal()
	f.there.Heal()
	meanwhile()
	// The log and the end of the process are those of the whole test.
	f.process = startChild(f.t, f.options)
}

// requests matches requests for resources by their verb.
func requests(method string, resources ...string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return r.Method == method && isFor(r, resources)
	}
}

func isFor(r *http.Request, resources []string) bool {
	return slices.ContainsFunc(strings.Split(r.URL.Path, "/"), func(part string) bool { return slices.Contains(resources, part) })
}

func everything(*http.Request) bool { return true }

func (f *faults) awaitBroken(t *testing.T, proxy *faultproxy.Requests, n int, what string) {
	t.Helper()
	require.Eventually(t, func() bool { return proxy.Broken() >= n }, soon, tick, what)
}

// long returns a pod of the virtual node with ten minutes of grace.
func long(name string) *corev1.Pod {
	pod := podOn(nodeName, name)
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](600)
	return pod
}

var running = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}

// awaitRuns plays the kubelet of a remote pod that runs, and waits until the local pod says
// so; the local pod is still the same.
func (f *faults) awaitRuns(t *testing.T, pod, there *corev1.Pod) {
	t.Helper()
	f.report(t, there, corev1.PodRunning, map[string]corev1.ContainerState{there.Spec.Containers[0].Name: running})
	f.awaitLocal(t, pod, corev1.PodRunning)
}

func (f *faults) awaitLocal(t *testing.T, pod *corev1.Pod, phase corev1.PodPhase) {
	t.Helper()
	uid := pod.UID
	planetest.Until(t, func(t planetest.T) bool {
		require.NoError(t, f.rome.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
		require.Equal(t, phase, pod.Status.Phase)
		return true
	}, soon, tick, "the local pod %s is %s", pod.Name, phase)
	assert.Equal(t, uid, pod.UID, "the local pod is the same")
}

// pairs waits until every local pod has one ShadowPod and one remote pod that were made for
// it, and until there is nothing else; the pods have these names.
func (f *faults) pairs(t *testing.T, names ...string) {
	t.Helper()
	slices.Sort(names)
	planetest.Until(t, func(t planetest.T) bool {
		locals, shadows, pods := &corev1.PodList{}, &offloadingv1beta1.ShadowPodList{}, &corev1.PodList{}
		require.NoError(t, f.rome.List(t.Context(), locals, client.InNamespace("shop")))
		require.NoError(t, f.milan.List(t.Context(), shadows, client.InNamespace("shop-rome")))
		require.NoError(t, f.milan.List(t.Context(), pods, client.InNamespace("shop-rome")))
		var local, shadow, there []string
		of, by := map[string]string{}, map[string]types.UID{}
		for i := range locals.Items {
			local = append(local, locals.Items[i].Name)
			of[locals.Items[i].Name] = string(locals.Items[i].UID)
		}
		for i := range shadows.Items {
			shadow = append(shadow, shadows.Items[i].Name)
			by[shadows.Items[i].Name] = shadows.Items[i].UID
			require.Equal(t, of[shadows.Items[i].Name], shadows.Items[i].Annotations[remote.LocalPodUIDAnnotation])
		}
		for i := range pods.Items {
			there = append(there, pods.Items[i].Name)
			require.Equal(t, of[pods.Items[i].Name], pods.Items[i].Annotations[remote.LocalPodUIDAnnotation])
			require.Equal(t, by[pods.Items[i].Name], metav1.GetControllerOf(&pods.Items[i]).UID)
		}
		require.ElementsMatch(t, names, local, "local pods")
		require.ElementsMatch(t, names, shadow, "ShadowPods")
		require.ElementsMatch(t, names, there, "remote pods")
		return true
	}, soon, tick)
}

// leave deletes what a case has made, by force, and waits until nothing is left.
func (f *faults) leave(t *testing.T) {
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
	}, soon, tick, "the remote pods go")
	f.pairs(t)
}

// TestAVirtualKubeletThatIsKilledAndLinksThatFail kills virtual kubelets at the worst moments
// and breaks their requests: nothing is lost, nothing runs twice, and nothing is left.
func TestAVirtualKubeletThatIsKilledAndLinksThatFail(t *testing.T) {
	f := newFaults(t)
	first := long("first")
	f.create(f.rome, first)
	f.awaitRuns(t, first, f.remoteAfter(t, "first", ""))
	f.leave(t)

	for name, run := range map[string]func(*faults, *testing.T){
		"killed between the creation of a ShadowPod and the first status": (*faults).killedBeforeStatus,
		"killed during the deletion of a pod":                             (*faults).killedDuringDeletion,
		"killed during an eviction":                                       (*faults).killedDuringEviction,
		"requests that are never answered":                                (*faults).unansweredRequests,
		"a provider that answers 429 after an outage":                     (*faults).busyAfterOutage,
		"labels that are due while the provider is gone":                  (*faults).lateLabel,
	} {
		t.Run(name, func(t *testing.T) {
			run(f, t)
			f.leave(t)
		})
	}
}
