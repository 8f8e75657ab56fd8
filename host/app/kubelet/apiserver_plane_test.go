package kubelet_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	ipamv1alpha1 "github.com/longshore-dev/longshore/host/apis/ipam/v1alpha1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// Without --home-api-server-host, remote pods reach the consumer's API server over the network
// between the clusters: by host aliases, which each cluster translates. No token and
// no pod leaves before the address is known.
func TestRemotePodsReachTheAPIServerOverTheNetwork(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_PORT", "8443")
	r := newRig(t)
	r.runManager()
	planetest.SimulateNodes(t, r.provider, "milan-worker")
	r.create(r.milan, namespace("liqo-tenant-rome"))
	r.create(r.rome, virtualNode(), r.secret(r.kubeconfig), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "reader"}})
	r.mapNamespace()
	options := r.options()
	r.grantTokens()
	options.EnableAPIServerSupport = true
	r.runKubelet(options)

	remotePod := func(name, what string) *corev1.Pod {
		t.Helper()
		pod := &corev1.Pod{}
		planetest.Until(t, func(t planetest.T) bool {
			return r.milan.Get(t.Context(), client.ObjectKey{Namespace: "shop-rome", Name: name}, pod) == nil
		}, soon, tick, what)
		return pod
	}
	secretOf := func(name string) error {
		return r.milan.Get(t.Context(), client.ObjectKey{Namespace: "shop-rome", Name: name + "-token"}, &corev1.Secret{})
	}
	r.create(r.rome, podWithToken("isolated", nil))
	isolated := remotePod("isolated", "without a network, a pod without access is offloaded")
	assert.Empty(t, isolated.Spec.HostAliases)
	assert.Empty(t, isolated.Spec.Containers[0].Env)
	assert.Empty(t, isolated.Spec.Volumes[0].Projected.Sources)
	assert.True(t, apierrors.IsNotFound(secretOf("isolated")), "T33")

	ofRome, ofMilan := networks("10.1.0.0/16", "10.70.0.0/16"), networks("10.0.0.0/8", "192.168.0.0/16")
	r.setConfiguration(r.milan, "liqo-tenant-rome", "rome", nil, ofRome, networks("10.71.0.0/16", "10.72.0.0/16"))
	r.setConfiguration(r.rome, tenant, "milan", &ofRome, ofMilan, networks("11.0.0.0/8", "172.16.0.0/16"))
	planetest.Until(t, func(t planetest.T) bool {
		local := &corev1.Pod{}
		require.NoError(t, r.rome.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "isolated"}, local))
		return strings.HasPrefix(local.Status.PodIP, "11.")
	}, soon, tick, "the virtual kubelet knows the network")
	pod := podWithToken("web", nil)
	r.create(r.rome, pod, podWithToken("declines", map[string]string{"liqo.io/api-server-support": "disabled"}))
	remotePod("declines", "a pod that declines access does not wait for the address")
	planetest.Until(t, func(t planetest.T) bool {
		events := &corev1.EventList{}
		require.NoError(t, r.rome.List(t.Context(), events, client.InNamespace("shop")))
		return slices.ContainsFunc(events.Items, func(event corev1.Event) bool {
			return event.InvolvedObject.UID == pod.UID && strings.Contains(event.Message, "no IP with label ipam.liqo.io/ip-type=api-server")
		})
	}, soon, tick, "the author of the pod reads what is missing")
	err := r.milan.Get(t.Context(), client.ObjectKey{Namespace: "shop-rome", Name: "web"}, &offloadingv1beta1.ShadowPod{})
	assert.True(t, apierrors.IsNotFound(err), "a pod waits for the address: %v", err)
	assert.True(t, apierrors.IsNotFound(secretOf("web")), "and so do its tokens")

	ip := &ipamv1alpha1.IP{
		ObjectMeta: metav1.ObjectMeta{Namespace: options.Namespace, Name: "api-server", Labels: map[string]string{ipamv1alpha1.IPTypeLabel: string(ipamv1alpha1.APIServerIP)}},
		Spec:       ipamv1alpha1.IPSpec{IP: "10.96.0.1"},
	}
	r.create(r.rome, ip)
	ip.Status = ipamv1alpha1.IPStatus{IP: "10.70.0.1", CIDR: "10.70.0.0/16"}
	require.NoError(t, r.rome.Status().Update(t.Context(), ip))
	web := remotePod("web", "the address offloads the pod")
	assert.Equal(t, []corev1.HostAlias{{IP: "10.72.0.1", Hostnames: []string{"kubernetes.default", "kubernetes.default.svc"}}}, web.Spec.HostAliases)
	assert.Contains(t, web.Spec.Containers[0].Env, corev1.EnvVar{Name: "KUBERNETES_PORT", Value: "tcp://kubernetes.default:8443"})
	assert.Equal(t, "web-token", web.Spec.Volumes[0].Projected.Sources[0].Secret.Name)
	planetest.Until(t, func(planetest.T) bool { return secretOf("web") == nil }, soon, tick, "and its tokens follow")
	assert.True(t, apierrors.IsNotFound(secretOf("declines")), "T31")
}
