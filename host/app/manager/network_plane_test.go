package manager_test

import (
	"context"
	"net/netip"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	ipamv1alpha1 "github.com/longshore-dev/longshore/host/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/longshore-dev/longshore/host/apis/networking/v1beta1"
	"github.com/longshore-dev/longshore/host/app/manager"
	"github.com/longshore-dev/longshore/host/app/process"
)

func ownNetwork(name, cidr string, kind ipamv1alpha1.NetworkType, labels ...string) *ipamv1alpha1.Network {
	network := &ipamv1alpha1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: "longshore", Name: name, Labels: map[string]string{ipamv1alpha1.NetworkTypeLabel: string(kind)}},
		Spec:       ipamv1alpha1.NetworkSpec{CIDR: networkingv1beta1.CIDR(cidr), PreAllocated: 1},
	}
	for _, label := range labels {
		network.Labels[label] = "true"
	}
	return network
}

// The peer has the networks of this cluster.
func TestNetworksOfAPeerAreAllocatedOnARealAPIServer(t *testing.T) {
	plane := planetest.ForTest(t, "rome")
	connection := plane.RESTConfig()
	rome := consumerOf(t, connection)
	create := func(objects ...client.Object) {
		t.Helper()
		for _, object := range objects {
			require.NoError(t, rome.Create(t.Context(), object))
		}
	}
	create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo-tenant-milan"}},
		ownNetwork("pod-cidr", "10.244.0.0/16", ipamv1alpha1.PodCIDRNetwork, ipamv1alpha1.NetworkNotRemappedLabel, ipamv1alpha1.NetworkSharedLabel),
		ownNetwork("external-cidr", "10.70.0.0/16", ipamv1alpha1.ExternalCIDRNetwork),
		&networkingv1beta1.Configuration{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan", Labels: map[string]string{"liqo.io/remote-cluster-id": "milan"}},
			Spec: networkingv1beta1.ConfigurationSpec{Remote: networkingv1beta1.ClusterNetwork{CIDR: networkingv1beta1.ClusterCIDRs{
				Pod: []networkingv1beta1.CIDR{"10.244.0.0/16"}, External: []networkingv1beta1.CIDR{"10.70.0.0/16"},
			}}},
		})
	app, err := manager.New(manager.Options{
		ShadowPodWorkers: 1, ShadowEndpointSliceWorkers: 1, Network: manager.NetworkOptions{Enabled: true, Pools: []string{"10.0.0.0/8"}},
		Options: process.Options{Config: asManager(t, connection), ClusterID: "rome", Namespace: "longshore", MetricsAddress: "0", HealthProbeAddress: "0"},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { assert.NoError(t, app.Run(ctx)) })
	t.Cleanup(func() { cancel(); done.Wait() })

	configuration := &networkingv1beta1.Configuration{}
	isConfigured := func(what string) networkingv1beta1.ClusterCIDRs {
		t.Helper()
		planetest.Until(t, func(t planetest.T) bool {
			require.NoError(t, rome.Get(t.Context(), client.ObjectKey{Namespace: "liqo-tenant-milan", Name: "milan"}, configuration))
			condition := meta.FindStatusCondition(configuration.Status.Conditions, networkingv1beta1.NetworkCIDRsConfigured)
			return condition != nil && condition.Status == metav1.ConditionTrue && condition.ObservedGeneration == configuration.Generation
		}, soon, tick, what)
		return configuration.Status.Remote.CIDR
	}
	remote := isConfigured("the networks of the peer are allocated")
	assert.Equal(t, networkingv1beta1.ClusterCIDRs{
		Pod: []networkingv1beta1.CIDR{"10.244.0.0/16"}, External: []networkingv1beta1.CIDR{"10.70.0.0/16"},
	}, configuration.Spec.Local.CIDR)
	for _, cidr := range append(remote.Pod, remote.External...) {
		assert.False(t, netip.MustParsePrefix(string(cidr)).Overlaps(netip.MustParsePrefix("10.244.0.0/16")), cidr)
		assert.False(t, netip.MustParsePrefix(string(cidr)).Overlaps(netip.MustParsePrefix("10.70.0.0/16")), cidr)
	}
	ip := &ipamv1alpha1.IP{}
	planetest.Until(t, func(t planetest.T) bool {
		err := rome.Get(t.Context(), client.ObjectKey{Namespace: "longshore", Name: "api-server"}, ip)
		return client.IgnoreNotFound(err) == nil && ip.Status.IP != ""
	}, soon, tick, "the API server has an IP")
	assert.Equal(t, ipamv1alpha1.IPStatus{IP: "10.70.0.1", CIDR: "10.70.0.0/16"}, ip.Status)

	testIPOfAPod(t, rome)

	configuration.Spec.Remote.CIDR.Pod = []networkingv1beta1.CIDR{"10.50.0.0/16"}
	require.NoError(t, rome.Update(t.Context(), configuration))
	assert.Equal(t, []networkingv1beta1.CIDR{"10.50.0.0/16"}, isConfigured("the changed networks are allocated").Pod)
	stale := client.ObjectKey{Namespace: "liqo-tenant-milan", Name: "milan-pod-10-244-0-0-16"}
	assert.True(t, apierrors.IsNotFound(rome.Get(t.Context(), stale, &ipamv1alpha1.Network{})), "a network that the peer no longer has is deleted")
}

// testIPOfAPod creates an offloaded pod, which the peers of other providers reach by the address of its
// IP.
func testIPOfAPod(t *testing.T, rome client.Client) {
	t.Helper()
	require.NoError(t, rome.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Labels: map[string]string{"liqo.io/shadowPod": "true"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "example.com/web:1"}}},
	}
	planetest.Until(t, func(planetest.T) bool { return rome.Create(t.Context(), pod) == nil }, soon, tick, "the namespace has its service account")
	report := func(status string) {
		t.Helper()
		require.NoError(t, rome.Status().Patch(t.Context(), pod, client.RawPatch(types.MergePatchType, []byte(`{"status":`+status+`}`))))
	}
	report(`{"phase":"Running","podIP":"10.60.0.9","podIPs":[{"ip":"10.60.0.9"}]}`)
	podIP := &ipamv1alpha1.IP{}
	planetest.Until(t, func(t planetest.T) bool {
		err := rome.Get(t.Context(), client.ObjectKeyFromObject(pod), podIP)
		return client.IgnoreNotFound(err) == nil && podIP.Status.IP != ""
	}, soon, tick, "the offloaded pod has an IP")
	assert.Equal(t, networkingv1beta1.IP("10.60.0.9"), podIP.Spec.IP)
	assert.True(t, metav1.IsControlledBy(podIP, pod))
	report(`{"phase":"Succeeded"}`)
	planetest.Until(t, func(t planetest.T) bool {
		return apierrors.IsNotFound(rome.Get(t.Context(), client.ObjectKeyFromObject(pod), podIP))
	}, soon, tick, "the IP of a finished pod is deleted")
}
