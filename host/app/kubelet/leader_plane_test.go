package kubelet_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/faultproxy"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/kubelet"
	"github.com/longshore-dev/longshore/host/consumer/election"
)

const secondNode = "milan-2"

// logLines collects the log of a virtual kubelet.
type logLines struct {
	mu    sync.Mutex
	lines []string
}

func (j *logLines) count(part string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := 0
	for _, line := range j.lines {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}

// runPeer runs one of several virtual kubelets.
func (r *rig) runPeer(node string, port int, config *rest.Config) (<-chan error, *logLines) {
	r.t.Helper()
	return r.runPeerThrough(node, port, config, secretName)
}

// runPeerThrough is runPeer with another kubeconfig Secret.
func (r *rig) runPeerThrough(node string, port int, config *rest.Config, secret string) (<-chan error, *logLines) {
	r.t.Helper()
	o := r.options()
	o.NodeName, o.Identity, o.ListenPort, o.CertificateType = node, "vk-"+node, port, string(kubelet.CertificateSelfSigned)
	o.Config, o.ForeignKubeconfigSecretName = r.asKubelet(node), secret
	o.Config.Host = config.Host
	// A renewal may take long on a busy machine, and the loss of the lease of the node ends the process.
	o.VKLeaseRetryPeriod = 500 * time.Millisecond
	j := &logLines{}
	log := funcr.New(func(prefix, args string) {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.lines = append(j.lines, prefix+" "+args)
	}, funcr.Options{})
	app, err := kubelet.New(ctrl.LoggerInto(r.t.Context(), log), o)
	require.NoError(r.t, err)
	return r.background(app.Run), j
}

func (r *rig) leader() string {
	lease := &coordinationv1.Lease{}
	if r.rome.Get(r.t.Context(), client.ObjectKey{Namespace: tenant, Name: election.LeaseName}, lease) != nil {
		return ""
	}
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

func (r *rig) settings(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", Labels: map[string]string{"app": "web", "private": "x", "secret": "y"}},
		Data:       map[string]string{"k": value},
	}
}

// remote returns a ConfigMap of the provider, or nil.
func (r *rig) remote(name string) *corev1.ConfigMap {
	found := &corev1.ConfigMap{}
	if r.milan.Get(r.t.Context(), client.ObjectKey{Namespace: "shop-rome", Name: name}, found) != nil {
		return nil
	}
	return found
}

func (r *rig) awaitRemote(name, value string) {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		found := r.remote(name)
		return found != nil && found.Data["k"] == value
	}, soon, tick, "ConfigMap %s with %q reaches the provider", name, value)
}

func (r *rig) awaitShadow(name string) *offloadingv1beta1.ShadowPod {
	r.t.Helper()
	shadow := &offloadingv1beta1.ShadowPod{}
	require.Eventually(r.t, func() bool {
		return r.milan.Get(r.t.Context(), client.ObjectKey{Namespace: "shop-rome", Name: name}, shadow) == nil
	}, soon, tick, "ShadowPod %s exists", name)
	return shadow
}

func podOn(node, name string) *corev1.Pod {
	pod := webPod()
	pod.Name, pod.Spec.NodeName = name, node
	return pod
}

// The leader loses the consumer's API server, and the next leader loses the lease.
func TestTwoVirtualKubeletsOfOneProvider(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	proxy, err := faultproxy.Start(r.consumer.Endpoint())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, proxy.Close()) })
	second := virtualNode()
	second.Name, second.Spec.OffloadingPatch.LabelsNotReflected = secondNode, []string{"secret"}
	r.create(r.rome, virtualNode(), second, r.secret(r.kubeconfig))
	r.mapNamespace()
	for _, name := range []string{"stays", "changes", "goes"} {
		r.create(r.rome, r.settings(name, "1"))
	}

	_, first := r.runPeer(nodeName, 10250, &rest.Config{Host: proxy.URL()})
	require.Eventually(t, func() bool { return r.leader() == "vk-"+nodeName }, soon, tick)
	ended, next := r.runPeer(secondNode, 10251, r.consumer.RESTConfig())
	r.create(r.rome, podOn(nodeName, "one"), podOn(secondNode, "two"))
	one, two := r.awaitShadow("one"), r.awaitShadow("two")
	for _, name := range []string{"stays", "changes", "goes"} {
		r.awaitRemote(name, "1")
	}
	assert.Zero(t, next.count("Leading the virtual kubelets"), "a follower sends only pods")
	stays := r.remote("stays")
	assert.Equal(t, map[string]string{
		"app": "web", "offloading.liqo.io/origin": "rome", "offloading.liqo.io/destination": "milan",
	}, stays.Labels, "the lists of all virtual nodes apply")

	proxy.Cut(faultproxy.Blackhole)
	r.update(r.settings("changes", "2"))
	require.NoError(t, r.rome.Delete(t.Context(), r.settings("goes", "")))
	r.awaitRemote("changes", "2")
	require.Eventually(t, func() bool { return r.remote("goes") == nil }, soon, tick, "an object that was deleted without a leader")
	assert.Equal(t, "vk-"+secondNode, r.leader())
	assert.Equal(t, 1, next.count("Leading the virtual kubelets"))
	assert.Equal(t, 1, first.count("Leading the virtual kubelets"))
	assert.Equal(t, stays.ResourceVersion, r.remote("stays").ResourceVersion, "no request without a change")
	assert.Equal(t, one.UID, r.awaitShadow("one").UID, "pods are not changed")
	assert.Equal(t, two.UID, r.awaitShadow("two").UID, "pods are not changed")

	t.Run("a virtual kubelet without the lease continues with its pods", func(t *testing.T) { r.testLostLease(t, next, ended) })
}

// One of two virtual kubelets loses the provider and gets it back.
func TestLeaderWithoutTheProviderIsReplaced(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	proxy, err := faultproxy.Start(r.provider.Endpoint())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, proxy.Close()) })
	certificate, key, err := r.provider.IssueClientCert("milan-1-through-a-proxy", []string{"rome"})
	require.NoError(t, err)
	kubeconfig, err := r.provider.KubeconfigFor(proxy.URL(), certificate, key)
	require.NoError(t, err)
	through, second := r.secret(kubeconfig), virtualNode()
	through.Name, second.Name = "through-a-proxy", secondNode
	first := virtualNode()
	first.Spec.KubeconfigSecretRef.Name = through.Name
	r.create(r.rome, first, second, r.secret(r.kubeconfig), through, r.settings("settings", "1"))
	r.mapNamespace()

	firstEnded, lines := r.runPeerThrough(nodeName, 10250, r.consumer.RESTConfig(), through.Name)
	require.Eventually(t, func() bool { return r.leader() == "vk-"+nodeName }, soon, tick)
	secondEnded, _ := r.runPeer(secondNode, 10251, r.consumer.RESTConfig())
	r.create(r.rome, podOn(nodeName, "one"))
	shadow := r.awaitShadow("one")
	r.awaitRemote("settings", "1")
	pod := podOn(nodeName, "one")
	require.NoError(t, r.rome.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))

	proxy.Cut(faultproxy.Blackhole)
	require.Eventually(t, func() bool { return r.leader() == "vk-"+secondNode }, soon, tick, "the virtual kubelet that reaches the provider leads")
	r.update(r.settings("settings", "2"))
	r.awaitRemote("settings", "2")
	require.Eventually(t, func() bool { return lines.count("Not leading") == 1 }, soon, tick)
	uid, phase := pod.UID, pod.Status.Phase
	require.NoError(t, r.rome.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
	assert.Equal(t, uid, pod.UID)
	assert.Equal(t, phase, pod.Status.Phase, "pods are not changed")
	assert.Nil(t, pod.DeletionTimestamp)

	reached := lines.count("The provider can be reached")
	proxy.Heal()
	require.Eventually(t, func() bool { return lines.count("The provider can be reached") > reached }, soon, tick)
	r.create(r.rome, podOn(nodeName, "later"))
	r.awaitShadow("later")
	assert.Equal(t, "vk-"+secondNode, r.leader(), "the leader does not change")
	assert.Equal(t, shadow.UID, r.awaitShadow("one").UID)
	assert.Empty(t, firstEnded)
	assert.Empty(t, secondEnded)
}

// testLostLease gives the lease to another holder, and then deletes it.
func (r *rig) testLostLease(t *testing.T, j *logLines, ended <-chan error) {
	require.Eventually(t, func() bool {
		lease := &coordinationv1.Lease{}
		if err := r.rome.Get(t.Context(), client.ObjectKey{Namespace: tenant, Name: election.LeaseName}, lease); err != nil {
			return false
		}
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = ptr.To("another"), ptr.To[int32](3600)
		return r.rome.Update(t.Context(), lease) == nil
	}, soon, tick)
	require.Eventually(t, func() bool { return j.count("Not leading") == 1 }, soon, tick)

	r.create(r.rome, r.settings("late", "1"), podOn(secondNode, "late"))
	r.awaitShadow("late")
	assert.Nil(t, r.remote("late"), "another virtual kubelet leads")
	select {
	case err := <-ended:
		t.Fatalf("the virtual kubelet ended: %v", err)
	default:
	}

	require.NoError(t, r.rome.Delete(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: election.LeaseName}}))
	r.awaitRemote("late", "1")
}

func (r *rig) update(object client.Object) {
	r.t.Helper()
	require.NoError(r.t, r.rome.Update(r.t.Context(), object))
}
