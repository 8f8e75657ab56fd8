package shadowpod

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkingv1beta1 "github.com/longshore-dev/longshore/host/apis/networking/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/address"
)

// configuration returns the Configuration of rome, whose external CIDR is remapped.
func configuration(status metav1.ConditionStatus) *networkingv1beta1.Configuration {
	network := func(cidr networkingv1beta1.CIDR) networkingv1beta1.ClusterNetwork {
		return networkingv1beta1.ClusterNetwork{CIDR: networkingv1beta1.ClusterCIDRs{External: []networkingv1beta1.CIDR{cidr}}}
	}
	remote := network("10.72.0.0/16")
	return &networkingv1beta1.Configuration{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "rome", Labels: map[string]string{"liqo.io/remote-cluster-id": "rome"}},
		Spec:       networkingv1beta1.ConfigurationSpec{Remote: network("10.70.0.0/16")},
		Status: networkingv1beta1.ConfigurationStatus{Remote: &remote, Conditions: []metav1.Condition{{
			Type: networkingv1beta1.NetworkCIDRsConfigured, Status: status,
		}}},
	}
}

func TestTheAddressOfTheConsumersAPIServerIsTranslated(t *testing.T) {
	of := func(hostname, ip string) *offloadingv1beta1.ShadowPod {
		return shadow(func(s *offloadingv1beta1.ShadowPod) {
			s.Spec.Pod.HostAliases = []corev1.HostAlias{{IP: ip, Hostnames: []string{hostname, hostname + ".svc"}}}
		})
	}
	apiServer := of("kubernetes.default", "10.70.0.1")
	withoutOrigin := of("kubernetes.default", "10.70.0.1")
	delete(withoutOrigin.Labels, offloadingv1beta1.OriginLabel)
	for name, tc := range map[string]struct {
		state state
		want  string
	}{
		"by the Configuration of the consumer":            {state{shadow: apiServer, configuration: configuration(metav1.ConditionTrue)}, "10.72.0.1"},
		"without Configuration, it stays":                 {state{shadow: apiServer}, "10.70.0.1"},
		"without a consumer, it stays":                    {state{shadow: withoutOrigin, configuration: configuration(metav1.ConditionTrue)}, "10.70.0.1"},
		"other aliases stay":                              {state{shadow: of("db.example.com", "10.70.0.1"), configuration: configuration(metav1.ConditionTrue)}, "10.70.0.1"},
		"other aliases do not wait for the Configuration": {state{shadow: of("db.example.com", "10.70.0.1"), configuration: configuration(metav1.ConditionFalse)}, "10.70.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			out := tc.state.reconcile(t)
			require.NoError(t, out.err)
			assert.Equal(t, tc.want, out.pod.Spec.HostAliases[0].IP)
			assert.Equal(t, "10.70.0.1", out.shadow.Spec.Pod.HostAliases[0].IP)
		})
	}
}

// Its pods would reach another cluster.
func TestNoPodIsCreatedBeforeTheAddressIsKnown(t *testing.T) {
	s := shadow(func(s *offloadingv1beta1.ShadowPod) {
		s.Spec.Pod.HostAliases = []corev1.HostAlias{{IP: "10.70.0.1", Hostnames: []string{"kubernetes.default"}}}
	})
	out := state{shadow: s, configuration: configuration(metav1.ConditionFalse)}.reconcile(t)
	require.ErrorIs(t, out.err, address.ErrPending)
	assert.Nil(t, out.pod)
	assert.Contains(t, out.shadow.Status.Message, address.ErrPending.Error())
}
