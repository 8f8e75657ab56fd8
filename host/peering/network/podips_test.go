package network

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/longshore-dev/longshore/host/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/longshore-dev/longshore/host/apis/networking/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/address"
)

func offloadedPod(uid types.UID, address string, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: uid, Labels: map[string]string{"liqo.io/shadowPod": "true"}},
		Status:     corev1.PodStatus{PodIP: address, Phase: phase},
	}
}

func podIP(uid types.UID, address string) *ipamv1alpha1.IP {
	return forgePodIP(offloadedPod(uid, address, corev1.PodRunning))
}

func TestIPsOfOffloadedPods(t *testing.T) {
	ofUser := &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: ipamv1alpha1.IPSpec{IP: "203.0.113.7"}}
	for name, tc := range map[string]struct {
		pod     *corev1.Pod
		current *ipamv1alpha1.IP
		want    networkingv1beta1.IP // none: there is no IP
	}{
		"a pod with an address":                     {offloadedPod("1", "10.71.0.9", corev1.PodRunning), nil, "10.71.0.9"},
		"a pod without address":                     {offloadedPod("1", "", corev1.PodPending), nil, ""},
		"a pod with an IPv6 address":                {offloadedPod("1", "fd00::1", corev1.PodRunning), nil, ""},
		"a pod with a bad address":                  {offloadedPod("1", "10.71.0", corev1.PodRunning), nil, ""},
		"a pod that has finished":                   {offloadedPod("1", "10.71.0.9", corev1.PodSucceeded), nil, ""},
		"a pod that has finished after it ran":      {offloadedPod("1", "10.71.0.9", corev1.PodFailed), podIP("1", "10.71.0.9"), ""},
		"an IP that is right":                       {offloadedPod("1", "10.71.0.9", corev1.PodRunning), podIP("1", "10.71.0.9"), "10.71.0.9"},
		"a remote pod with another address":         {offloadedPod("1", "10.71.0.10", corev1.PodRunning), podIP("1", "10.71.0.9"), "10.71.0.10"},
		"a remote pod that lost its address":        {offloadedPod("1", "", corev1.PodPending), podIP("1", "10.71.0.9"), ""},
		"the IP of an earlier pod is left":          {offloadedPod("2", "10.71.0.10", corev1.PodRunning), podIP("1", "10.71.0.9"), "10.71.0.9"},
		"an IP of a user is left":                   {offloadedPod("1", "10.71.0.9", corev1.PodRunning), ofUser, "203.0.113.7"},
		"an IP of a user, of a pod that has ended":  {offloadedPod("1", "10.71.0.9", corev1.PodSucceeded), ofUser, "203.0.113.7"},
		"a deleted pod, of which the IP is garbage": {nil, podIP("1", "10.71.0.9"), "10.71.0.9"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnvironment()
			for _, object := range []client.Object{tc.pod, tc.current} {
				if object != client.Object((*corev1.Pod)(nil)) && object != client.Object((*ipamv1alpha1.IP)(nil)) {
					require.NoError(t, e.Create(t.Context(), object.DeepCopyObject().(client.Object)))
				}
			}
			pods := &PodIPs{Client: e, Pods: e}
			for range 3 { // a deletion enqueues the pod
				_, err := pods.Reconcile(t.Context(), request(offloadedPod("1", "", "")))
				require.NoError(t, err)
			}
			got := &ipamv1alpha1.IP{}
			err := e.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "web"}, got)
			if tc.want == "" {
				assert.True(t, apierrors.IsNotFound(err), "%v", err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.want, got.Spec.IP)
			if tc.pod != nil && tc.current == nil {
				assert.True(t, metav1.IsControlledBy(got, tc.pod), "the garbage collector deletes it with the pod")
				assert.Equal(t, map[string]string{"offloading.liqo.io/pod-name": "web", "offloading.liqo.io/pod-namespace": "shop"}, got.Labels)
			}
		})
	}
}

func TestTheCacheOfOffloadedPodsHasWhatTheirIPsNeed(t *testing.T) {
	pod := offloadedPod("1", "10.71.0.9", corev1.PodRunning)
	pod.Annotations, pod.Spec.Containers, pod.Status.Message = map[string]string{"a": "b"}, make([]corev1.Container, 3), "m"
	got, err := trimPod(pod)
	require.NoError(t, err)
	assert.Equal(t, offloadedPod("1", "10.71.0.9", corev1.PodRunning), got)
}

// A pod in one provider is an endpoint for the pods in another one: rome gives milan's pod an address of
// its external CIDR, and turin remaps that as any external address of rome.
func TestAPodOfOneProviderIsReachedFromAnother(t *testing.T) {
	external := newNetwork(own, "external-cidr", "10.70.0.0/16", map[string]string{ipamv1alpha1.NetworkTypeLabel: string(ipamv1alpha1.ExternalCIDRNetwork)})
	external.Spec.PreAllocated = 1
	e := newEnvironment(external)
	// milan's pod network is 10.1.0.0/16 as rome's, which knows it as 10.71.0.0/16.
	pod := offloadedPod("1", "10.71.0.9", corev1.PodRunning)
	require.NoError(t, e.Create(t.Context(), pod))
	_, err := (&PodIPs{Client: e, Pods: e}).Reconcile(t.Context(), request(pod))
	require.NoError(t, err)
	e.settle(t)
	outgoing := address.Outgoing{Pods: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}, IPOf: func(original string) *ipamv1alpha1.IP {
		list := &ipamv1alpha1.IPList{}
		require.NoError(t, e.List(t.Context(), list, client.InNamespace("shop")))
		for i := range list.Items {
			if string(list.Items[i].Spec.IP) == original {
				return &list.Items[i]
			}
		}
		return nil
	}}
	sent, err := outgoing.Translate(pod.Status.PodIP)
	require.NoError(t, err)
	assert.Equal(t, "10.70.0.1", sent)

	network := func(pods, external networkingv1beta1.CIDR) networkingv1beta1.ClusterNetwork {
		return networkingv1beta1.ClusterNetwork{CIDR: networkingv1beta1.ClusterCIDRs{
			Pod: []networkingv1beta1.CIDR{pods}, External: []networkingv1beta1.CIDR{external},
		}}
	}
	remapped := network("10.90.0.0/16", "10.91.0.0/16")
	inTurin, err := address.NewPeer(&networkingv1beta1.Configuration{
		Spec: networkingv1beta1.ConfigurationSpec{Remote: network("10.1.0.0/16", "10.70.0.0/16")},
		Status: networkingv1beta1.ConfigurationStatus{Remote: &remapped, Conditions: []metav1.Condition{
			{Type: networkingv1beta1.NetworkCIDRsConfigured, Status: metav1.ConditionTrue},
		}},
	})
	require.NoError(t, err)
	reached, err := inTurin.Translate(sent)
	require.NoError(t, err)
	assert.Equal(t, "10.91.0.1", reached)

	pod.Status.Phase = corev1.PodSucceeded
	require.NoError(t, e.Status().Update(t.Context(), pod))
	_, err = (&PodIPs{Client: e, Pods: e}).Reconcile(t.Context(), request(pod))
	require.NoError(t, err)
	_, err = outgoing.Translate("10.71.0.9")
	var unreachable *address.UnreachableError
	require.ErrorAs(t, err, &unreachable, "its address is free again")
}
