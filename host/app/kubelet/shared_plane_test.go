package kubelet_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/app/kubelet"
)

const sharedProcess = "vk-shared-0123456789"

// assigned is a VirtualNode that the manager has assigned to the shared process.
func assigned(name, secret string) *offloadingv1beta1.VirtualNode {
	vn := virtualNode()
	vn.Name, vn.Spec.KubeconfigSecretRef.Name = name, secret
	vn.Annotations = map[string]string{offloadingv1beta1.SharedProcessKey: sharedProcess}
	vn.Spec.Template = &offloadingv1beta1.DeploymentTemplate{}
	labels := map[string]string{offloadingv1beta1.VirtualNodeLabel: name}
	vn.Spec.Template.Spec.Selector, vn.Spec.Template.Spec.Template.Labels = &metav1.LabelSelector{MatchLabels: labels}, labels
	vn.Spec.Template.Spec.Template.Spec.Containers = []corev1.Container{{Name: "virtual-kubelet", Args: []string{
		"--nodename=" + name, "--foreign-kubeconfig-secret-name=" + secret, "--create-node=true", "--node-check-network=false",
	}}}
	return vn
}

// sharedOptions are the options of a shared process. Its pod owns its PolicyComponent.
func (r *rig) sharedOptions() kubelet.Options {
	r.t.Helper()
	o := r.options()
	o.SharedProcess, o.NodeName, o.ForeignKubeconfigSecretName = sharedProcess, kubelet.DefaultOptions().NodeName, ""
	o.Config = r.asKubelet(sharedProcess)
	return o
}

func (r *rig) createSharedPod(name string) {
	r.t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: sharedProcess}}
	require.NoError(r.t, client.IgnoreAlreadyExists(r.rome.Create(r.t.Context(), account)))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: name, Labels: map[string]string{
			offloadingv1beta1.ComponentLabel: offloadingv1beta1.ComponentVirtualKubelet, offloadingv1beta1.SharedProcessKey: sharedProcess,
		}},
		Spec: corev1.PodSpec{ServiceAccountName: sharedProcess, Containers: []corev1.Container{{Name: "virtual-kubelet", Image: "longshore"}}},
	}
	r.create(r.rome, pod)
	before := pod.DeepCopy()
	pod.Status.PodIP, pod.Status.PodIPs = r.consumer.Address(), []corev1.PodIP{{IP: r.consumer.Address()}}
	require.NoError(r.t, r.rome.Status().Patch(r.t.Context(), pod, client.MergeFrom(before)))
}

func (r *rig) awaitNode(name string) *corev1.Node {
	r.t.Helper()
	node := &corev1.Node{}
	require.Eventually(r.t, func() bool {
		return r.rome.Get(r.t.Context(), client.ObjectKey{Name: name}, node) == nil && isReady(node)
	}, soon, tick, "node %s is ready", name)
	return node
}

func (r *rig) awaitRunning(name string) *corev1.Pod {
	r.t.Helper()
	pod := &corev1.Pod{}
	require.Eventually(r.t, func() bool {
		return r.rome.Get(r.t.Context(), client.ObjectKey{Namespace: "shop", Name: name}, pod) == nil && pod.Status.Phase == corev1.PodRunning
	}, soon, tick, "pod %s is Running", name)
	return pod
}

// roundTripper is a function as an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// kubeletAPI sends a request to the kubelet API of a node, where the Node says that it is.
func (r *rig) kubeletAPI(node *corev1.Node, path string) (int, string) {
	r.t.Helper()
	certificate, key, err := r.consumer.IssueClientCert("admin", []string{"system:masters"})
	require.NoError(r.t, err)
	config := &rest.Config{TLSClientConfig: rest.TLSClientConfig{Insecure: true, CertData: certificate, KeyData: key}}
	return r.getFrom(r.t, config, node.Status.Addresses[0].Address, int(node.Status.DaemonEndpoints.KubeletEndpoint.Port), path)
}

func TestSeveralVirtualNodesShareAProcess(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.runManager()
	r.approveCertificates()
	planetest.SimulateNodes(t, r.provider, "milan-worker")
	broken := r.secret([]byte("rubbish"))
	broken.Name = "broken"
	r.createSharedPod("replica-1")
	names := []string{"milan-1", "milan-2", "milan-3"}
	for _, name := range names {
		r.create(r.rome, assigned(name, secretName))
	}
	elsewhere := assigned("milan-5", secretName)
	elsewhere.Annotations[offloadingv1beta1.SharedProcessKey] = "vk-shared-another"
	r.create(r.rome, r.secret(r.kubeconfig), broken, assigned("milan-4", "broken"), elsewhere)
	r.mapNamespace()
	options, otherPods := r.sharedOptions(), &atomic.Int32{}
	options.Config = rest.CopyConfig(options.Config)
	options.Config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if request.URL.Path == "/api/v1/pods" && !strings.Contains(request.URL.Query().Get("fieldSelector"), "spec.nodeName=") {
				otherPods.Add(1)
			}
			return next.RoundTrip(request)
		})
	})
	ended := r.runKubelet(options)

	ports := map[string]bool{}
	for _, name := range names {
		node := r.awaitNode(name)
		ports[strconv.Itoa(int(node.Status.DaemonEndpoints.KubeletEndpoint.Port))] = true
		r.create(r.rome, podOn(name, "web-"+name))
	}
	assert.Len(t, ports, len(names), "each node has a port of its own")
	for _, name := range names {
		r.awaitRunning("web-" + name)
		node := r.awaitNode(name)
		code, body := r.kubeletAPI(node, "/pods")
		assert.Equal(t, http.StatusOK, code)
		for _, other := range names {
			if part := fmt.Sprintf(`"name":"web-%s"`, other); other == name {
				assert.Contains(t, body, part)
			} else {
				assert.NotContains(t, body, part)
			}
		}
	}
	r.testLogsOf(t, "web-milan-2")
	t.Run("one that ends does not affect the others", func(t *testing.T) { r.testEndOfOne(t, "milan-2", "milan-3") })
	t.Run("one whose arguments changed starts again", func(t *testing.T) { r.testChangedArguments(t, "milan-3") })
	require.Eventually(t, func() bool {
		component := &policyv1alpha1.PolicyComponent{}
		return r.rome.Get(t.Context(), client.ObjectKey{Namespace: tenant, Name: sharedProcess}, component) == nil && len(component.OwnerReferences) > 0
	}, soon, tick, "the process reports its policies, as its Pod")
	assert.Zero(t, otherPods.Load(), "requests for pods of other nodes")
	r.awaitEvent("BrokenKubeconfig", `key "kubeconfig"`)
	r.awaitEvent("VirtualNodeNotServed", `key "kubeconfig"`)
	require.Error(t, r.rome.Get(t.Context(), client.ObjectKey{Namespace: tenant, Name: "milan-5"}, &coordinationv1.Lease{}), "another process serves it")
	select {
	case err := <-ended:
		t.Fatalf("the virtual kubelet ended: %v", err)
	default:
	}
}

// testLogsOf reads a log through the consumer's API server, which verifies the certificate of the
// node's kubelet API. The provider logs that it fails to reach the simulated node.
func (r *rig) testLogsOf(t *testing.T, name string) {
	t.Helper()
	pods := planetest.Client(t, r.consumer).CoreV1().Pods("shop")
	require.Eventually(t, func() bool {
		_, err := pods.GetLogs(name, &corev1.PodLogOptions{}).DoRaw(t.Context())
		log, readErr := os.ReadFile(r.provider.LogFile())
		return err != nil && readErr == nil && !strings.Contains(err.Error(), "x509") && strings.Contains(string(log), "/containerLogs/shop-rome/"+name+"/web")
	}, soon, tick)
}

// change patches a VirtualNode.
func (r *rig) change(t *testing.T, name string, change func(*offloadingv1beta1.VirtualNode)) {
	t.Helper()
	vn := &offloadingv1beta1.VirtualNode{}
	require.NoError(t, r.rome.Get(t.Context(), client.ObjectKey{Namespace: tenant, Name: name}, vn))
	before := vn.DeepCopy()
	change(vn)
	require.NoError(t, r.rome.Patch(t.Context(), vn, client.MergeFrom(before)))
}

func (r *rig) holderOf(t planetest.T, node string) string {
	t.Helper()
	lease := &coordinationv1.Lease{}
	require.NoError(t, r.rome.Get(t.Context(), client.ObjectKey{Namespace: tenant, Name: node}, lease))
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

func (r *rig) testEndOfOne(t *testing.T, ended, other string) {
	assert.Equal(t, sharedProcess, r.holderOf(t, ended))
	shadow := r.awaitShadow("web-" + ended)
	address := net.JoinHostPort(r.consumer.Address(), strconv.Itoa(int(r.awaitNode(ended).Status.DaemonEndpoints.KubeletEndpoint.Port)))
	r.change(t, ended, func(vn *offloadingv1beta1.VirtualNode) { vn.Annotations = nil })
	planetest.Until(t, func(t planetest.T) bool { return r.holderOf(t, ended) == "" }, soon, tick, "the process releases the lease")
	_, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	require.ErrorIs(t, err, syscall.ECONNREFUSED, "its kubelet API has ended")
	r.create(r.rome, podOn(ended, "later-"+ended), podOn(other, "later-"+other))
	r.awaitRunning("later-" + other)
	assert.Equal(t, shadow.UID, r.awaitShadow("web-"+ended).UID, "its pods stay")
	require.Error(t, r.milan.Get(t.Context(), client.ObjectKey{Namespace: "shop-rome", Name: "later-" + ended}, &offloadingv1beta1.ShadowPod{}))

	require.NoError(t, r.rome.Delete(t.Context(), &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: ended}}))
	r.create(r.rome, podOn(other, "last-"+other))
	r.awaitRunning("last-" + other)
}

func (r *rig) testChangedArguments(t *testing.T, name string) {
	uid := r.awaitShadow("web-" + name).UID
	r.change(t, name, func(vn *offloadingv1beta1.VirtualNode) {
		container := &vn.Spec.Template.Spec.Template.Spec.Containers[0]
		container.Args = append(container.Args, "--node-extra-labels=rack=7")
	})
	node := &corev1.Node{}
	require.Eventually(t, func() bool {
		return r.rome.Get(t.Context(), client.ObjectKey{Name: name}, node) == nil && node.Labels["rack"] == "7"
	}, soon, tick)
	assert.Equal(t, uid, r.awaitShadow("web-"+name).UID)
}
