package shadowendpointslice

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkingv1beta1 "github.com/longshore-dev/longshore/host/apis/networking/v1beta1"
	"github.com/longshore-dev/longshore/host/internal/testkit"
	"github.com/longshore-dev/longshore/host/kit/address"
)

// configurationOf returns the Configuration of the consumer whose pods are remapped to a network.
func configurationOf(consumer string, remapped networkingv1beta1.CIDR) *networkingv1beta1.Configuration {
	network := func(cidr networkingv1beta1.CIDR) networkingv1beta1.ClusterNetwork {
		return networkingv1beta1.ClusterNetwork{CIDR: networkingv1beta1.ClusterCIDRs{Pod: []networkingv1beta1.CIDR{cidr}}}
	}
	remote := network(remapped)
	return &networkingv1beta1.Configuration{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "liqo-tenant-" + consumer, Name: consumer, Generation: 1, Labels: map[string]string{"liqo.io/remote-cluster-id": consumer},
		},
		Spec: networkingv1beta1.ConfigurationSpec{Remote: network("10.0.0.0/16")},
		Status: networkingv1beta1.ConfigurationStatus{Remote: &remote, Conditions: []metav1.Condition{{
			Type: networkingv1beta1.NetworkCIDRsConfigured, Status: metav1.ConditionTrue, ObservedGeneration: 1,
		}}},
	}
}

func TestAddressesFollowTheConfigurationOfTheConsumer(t *testing.T) {
	configuration := configurationOf("rome", "10.71.0.0/16")
	e := newEnvironment(testkit.ShadowEndpointSlice(testkit.Endpoint()), configuration, configurationOf("paris", "10.99.0.0/16"))
	slice, _, _ := e.reconcile(t)
	assert.Equal(t, []string{"10.71.0.5"}, slice.Endpoints[0].Addresses)
	assert.Equal(t, []reconcile.Request{{NamespacedName: key}}, e.reconciler.slicesOf(t.Context(), configuration), "a change enqueues the slices of the consumer")
	assert.Empty(t, e.reconciler.slicesOf(t.Context(), configurationOf("paris", "10.99.0.0/16")))

	configuration.Status.Remote.CIDR.Pod[0] = "10.72.0.0/16"
	require.NoError(t, e.Status().Update(t.Context(), configuration))
	slice, writes, _ := e.reconcile(t)
	assert.Equal(t, []string{"10.72.0.5"}, slice.Endpoints[0].Addresses)
	assert.Equal(t, []string{"patch"}, writes)

	configuration.Status.Conditions[0].Status = metav1.ConditionFalse
	require.NoError(t, e.Status().Update(t.Context(), configuration))
	_, err := e.reconciler.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
	require.ErrorIs(t, err, address.ErrPending)
	assert.Contains(t, <-e.events, "Warning AddressesNotTranslated The EndpointSlice is not updated, because the addresses of cluster \"rome\" cannot be translated")

	require.NoError(t, e.Delete(t.Context(), configuration))
	slice, _, _ = e.reconcile(t)
	assert.Equal(t, []string{"10.0.0.5"}, slice.Endpoints[0].Addresses, "without Configuration, addresses are not changed")
}
