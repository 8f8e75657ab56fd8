package kubelet_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	ipamv1alpha1 "github.com/longshore-dev/longshore/host/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/longshore-dev/longshore/host/apis/networking/v1beta1"
)

// networks returns networks of a cluster.
func networks(pod, external networkingv1beta1.CIDR) networkingv1beta1.ClusterNetwork {
	return networkingv1beta1.ClusterNetwork{CIDR: networkingv1beta1.ClusterCIDRs{
		Pod: []networkingv1beta1.CIDR{pod}, External: []networkingv1beta1.CIDR{external},
	}}
}

// setConfiguration creates the Configuration of a peer, or changes what its networks are remapped
// to, as a fabric does.
func (r *rig) setConfiguration(c client.Client, namespace, peer string, local *networkingv1beta1.ClusterNetwork, remote, remapped networkingv1beta1.ClusterNetwork) *networkingv1beta1.Configuration {
	r.t.Helper()
	configuration := &networkingv1beta1.Configuration{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: peer, Labels: map[string]string{"liqo.io/remote-cluster-id": peer}},
		Spec:       networkingv1beta1.ConfigurationSpec{Local: local, Remote: remote},
	}
	if c.Get(r.t.Context(), client.ObjectKeyFromObject(configuration), configuration) != nil {
		r.create(c, configuration)
	}
	configuration.Status = networkingv1beta1.ConfigurationStatus{Remote: &remapped, Conditions: []metav1.Condition{{
		Type: networkingv1beta1.NetworkCIDRsConfigured, Status: metav1.ConditionTrue, Reason: networkingv1beta1.NetworkCIDRsConfigured,
		ObservedGeneration: configuration.Generation, LastTransitionTime: metav1.Now(),
	}}}
	require.NoError(r.t, c.Status().Update(r.t.Context(), configuration))
	return configuration
}

// Addresses of pods and of endpoints follow the Configurations of the two clusters.
func TestAddressesFollowTheConfigurations(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.runManager()
	planetest.SimulateNodes(t, r.provider, "milan-worker")
	slice := sliceOfWeb()
	slice.Endpoints = []discoveryv1.Endpoint{slice.Endpoints[0], slice.Endpoints[3]}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}
	worker := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "rome-worker"}}
	r.create(r.milan, namespace("liqo-tenant-rome"))
	r.create(r.rome, virtualNode(), r.secret(r.kubeconfig), worker, service, slice, webPod())
	r.mapNamespace()
	r.runKubelet(r.options())

	podHas := func(network, what string) {
		t.Helper()
		planetest.Until(t, func(t planetest.T) bool {
			remote, local := &corev1.Pod{}, &corev1.Pod{}
			if r.milan.Get(t.Context(), client.ObjectKey{Namespace: "shop-rome", Name: "web"}, remote) != nil || remote.Status.PodIP == "" {
				return false
			}
			require.NoError(t, r.rome.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "web"}, local))
			_, host, _ := strings.Cut(remote.Status.PodIP, ".")
			return local.Status.PodIP == network+"."+host
		}, soon, tick, what)
	}
	endpointsAre := func(what string, addresses ...string) {
		t.Helper()
		planetest.Until(t, func(t planetest.T) bool {
			slice := &discoveryv1.EndpointSlice{}
			if r.milan.Get(t.Context(), client.ObjectKey{Namespace: "shop-rome", Name: "web-1"}, slice) != nil {
				return false
			}
			var got []string
			for i := range slice.Endpoints {
				got = append(got, slice.Endpoints[i].Addresses...)
			}
			return assert.ObjectsAreEqual(addresses, got)
		}, soon, tick, what)
	}
	podHas("10", "without Configuration, the address of the remote pod")
	endpointsAre("without Configuration, the addresses of the endpoints", "10.1.0.1", "203.0.113.1")

	ofRome, ofMilan := networks("10.1.0.0/16", "10.70.0.0/16"), networks("10.0.0.0/8", "192.168.0.0/16")
	inRome := func(pods networkingv1beta1.CIDR) *networkingv1beta1.Configuration {
		return r.setConfiguration(r.rome, tenant, "milan", &ofRome, ofMilan, networks(pods, "172.16.0.0/16"))
	}
	inMilan := func(pods networkingv1beta1.CIDR) *networkingv1beta1.Configuration {
		return r.setConfiguration(r.milan, "liqo-tenant-rome", "rome", nil, ofRome, networks(pods, "10.72.0.0/16"))
	}
	inMilan("10.71.0.0/16")
	endpointsAre("the provider translates what is of the consumer's networks", "10.71.0.1", "203.0.113.1")
	inRome("11.0.0.0/8")
	podHas("11", "the remapped address")
	external := &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}, Spec: ipamv1alpha1.IPSpec{IP: "203.0.113.1"}}
	r.create(r.rome, external)
	external.Status = ipamv1alpha1.IPStatus{IP: "10.70.0.4", CIDR: "10.70.0.0/16"}
	require.NoError(t, r.rome.Status().Update(t.Context(), external))
	endpointsAre("an IP of the consumer has the external address", "10.71.0.1", "10.72.0.4")

	configuration, peer := inRome("12.0.0.0/8"), inMilan("10.73.0.0/16")
	podHas("12", "a changed Configuration changes the address of a pod")
	endpointsAre("a changed Configuration changes the addresses of endpoints", "10.73.0.1", "10.72.0.4")

	require.NoError(t, r.rome.Delete(t.Context(), configuration))
	require.NoError(t, r.milan.Delete(t.Context(), peer))
	podHas("10", "after the Configuration, the address of the remote pod")
	endpointsAre("after the Configuration, the addresses of the endpoints", "10.1.0.1", "203.0.113.1")
}
