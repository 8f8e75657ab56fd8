package address_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	ipamv1alpha1 "github.com/longshore-dev/longshore/host/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/longshore-dev/longshore/host/apis/networking/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
	"github.com/longshore-dev/longshore/host/kit/address"
)

type cidrs = []networkingv1beta1.CIDR

func network(pod, external cidrs) *networkingv1beta1.ClusterNetwork {
	return &networkingv1beta1.ClusterNetwork{CIDR: networkingv1beta1.ClusterCIDRs{Pod: pod, External: external}}
}

// configured returns the Configuration of cluster milan whose pods are remapped to one network.
func configured(pod networkingv1beta1.CIDR) *networkingv1beta1.Configuration {
	return &networkingv1beta1.Configuration{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "liqo-tenant-milan", Name: "milan", UID: "1", Generation: 2, Labels: map[string]string{"liqo.io/remote-cluster-id": "milan"},
		},
		Spec: networkingv1beta1.ConfigurationSpec{
			Local: network(cidrs{"10.1.0.0/16"}, nil), Remote: *network(cidrs{"10.244.0.0/16", "10.9.0.0/16"}, cidrs{"10.70.0.0/16", "10.244.0.0/15"}),
		},
		Status: networkingv1beta1.ConfigurationStatus{
			Remote: network(cidrs{pod, "10.9.0.0/16"}, cidrs{"10.72.0.0/16", "10.200.0.0/15"}),
			Conditions: []metav1.Condition{{
				Type: networkingv1beta1.NetworkCIDRsConfigured, Status: metav1.ConditionTrue, ObservedGeneration: 2,
			}},
		},
	}
}

func TestIdentity(t *testing.T) {
	for _, original := range []string{"10.0.0.5", "fd00::5", "example.com"} {
		got, err := address.Identity{}.Translate(original)
		require.NoError(t, err)
		assert.Equal(t, original, got)
	}
}

func TestAddressesOfAPeer(t *testing.T) {
	peer, err := address.NewPeer(configured("10.71.0.0/16"))
	require.NoError(t, err)
	for name, tc := range map[string]struct{ address, want string }{
		"a pod":                           {"10.244.3.9", "10.71.3.9"},
		"a pod of a network that is kept": {"10.9.3.9", "10.9.3.9"},
		"an external address":             {"10.70.0.4", "10.72.0.4"},
		"pods come first":                 {"10.245.0.1", "10.201.0.1"},
		"another address":                 {"192.0.2.1", "192.0.2.1"},
		"IPv6":                            {"fd00::1", "fd00::1"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := peer.Translate(tc.address)
			require.NoError(t, err)
			assert.Equal(t, tc.want, got)
		})
	}
	_, err = peer.Translate("example.com")
	require.ErrorContains(t, err, "example.com")
}

func TestAConfigurationThatIsNotComplete(t *testing.T) {
	for name, change := range map[string]func(*networkingv1beta1.Configuration){
		"has no status":                         func(c *networkingv1beta1.Configuration) { c.Status.Remote = nil },
		"has no condition":                      func(c *networkingv1beta1.Configuration) { c.Status.Conditions = nil },
		"has a condition of another generation": func(c *networkingv1beta1.Configuration) { c.Generation++ },
		"has a false condition":                 func(c *networkingv1beta1.Configuration) { c.Status.Conditions[0].Status = metav1.ConditionFalse },
		"has fewer CIDRs in the status":         func(c *networkingv1beta1.Configuration) { c.Status.Remote.CIDR.Pod = c.Status.Remote.CIDR.Pod[:1] },
		"has an invalid CIDR":                   func(c *networkingv1beta1.Configuration) { c.Status.Remote.CIDR.External[0] = "fd00::/64" },
		"remaps to another length":              func(c *networkingv1beta1.Configuration) { c.Status.Remote.CIDR.Pod[0] = "10.71.0.0/24" },
	} {
		t.Run(name, func(t *testing.T) {
			configuration := configured("10.71.0.0/16")
			change(configuration)
			_, err := address.NewPeer(configuration)
			require.Error(t, err)
			_, err = address.Load(t.Context(), reader(configuration), "milan")
			require.ErrorContains(t, err, "Configuration liqo-tenant-milan/milan")
		})
	}
}

func reader(objects ...client.Object) client.Reader {
	return fakeclient.Builder(objects...).Build()
}

func TestLoad(t *testing.T) {
	second := configured("10.99.0.0/16")
	second.Name = "milan-2"
	ofOther := configured("10.98.0.0/16")
	ofOther.Name, ofOther.Labels = "a-paris", map[string]string{"liqo.io/remote-cluster-id": "paris"}
	r := reader(configured("10.71.0.0/16"), second, ofOther)
	for cluster, want := range map[string]string{"milan": "10.71.3.9", "paris": "10.98.3.9", "rome": "10.244.3.9", "": "10.244.3.9"} {
		translator, err := address.Load(t.Context(), r, liqocorev1beta1.ClusterID(cluster))
		require.NoError(t, err)
		got, err := translator.Translate("10.244.3.9")
		require.NoError(t, err)
		assert.Equal(t, want, got, cluster)
	}
}

func TestTable(t *testing.T) {
	table := &address.Table{}
	says := func(want string) {
		t.Helper()
		got, err := table.Of("milan").Translate("10.244.3.9")
		if want == "" {
			require.ErrorIs(t, err, address.ErrPending)
			return
		}
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	says("10.244.3.9")
	_, isTranslated := table.LocalPods("milan")
	assert.False(t, isTranslated)

	pending := configured("10.71.0.0/16")
	pending.Status = networkingv1beta1.ConfigurationStatus{}
	assert.True(t, table.Set(pending))
	says("")
	local, isTranslated := table.LocalPods("milan")
	assert.True(t, isTranslated)
	assert.Equal(t, []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}, local)

	assert.True(t, table.Set(configured("10.71.0.0/16")))
	says("10.71.3.9")
	assert.False(t, table.Set(configured("10.71.0.0/16")), "nothing has changed")

	changing := configured("10.71.0.0/16")
	changing.Generation++
	assert.False(t, table.Set(changing))
	says("10.71.3.9")
	assert.True(t, table.Set(configured("10.99.0.0/16")))
	says("10.99.3.9")

	recreated := pending.DeepCopy()
	recreated.UID = "2"
	assert.True(t, table.Set(recreated))
	says("")
	assert.False(t, table.Remove(client.ObjectKey{Namespace: "liqo-tenant-milan", Name: "paris"}))
	assert.True(t, table.Remove(client.ObjectKeyFromObject(recreated)))
	says("10.244.3.9")
}

func TestAddressesForPeers(t *testing.T) {
	ips := map[string]*ipamv1alpha1.IP{
		"203.0.113.7": {Status: ipamv1alpha1.IPStatus{IP: "10.70.0.4"}},
		"203.0.113.8": {},
		"10.1.0.9":    {Status: ipamv1alpha1.IPStatus{IP: "10.70.0.5"}},
	}
	ipOf := func(original string) *ipamv1alpha1.IP { return ips[original] }
	outgoing := address.Outgoing{Pods: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}, IPOf: ipOf}
	for name, tc := range map[string]struct {
		translator address.Translator
		original   string
		want       string
		err        error
	}{
		"a local pod keeps its address":                      {outgoing, "10.1.0.9", "10.1.0.9", nil},
		"an IP has the address":                              {outgoing, "203.0.113.7", "10.70.0.4", nil},
		"an IP without address is waited for":                {outgoing, "203.0.113.8", "", address.ErrNoAddress},
		"an address without IP is an error":                  {outgoing, "203.0.113.9", "", &address.UnreachableError{Address: "203.0.113.9"}},
		"IPv6 addresses are not translated":                  {outgoing, "fd00::1", "fd00::1", nil},
		"while the pod CIDRs are not known, addresses stay":  {address.Outgoing{IPOf: ipOf}, "203.0.113.9", "203.0.113.9", nil},
		"while the pod CIDRs are not known, IPs are applied": {address.Outgoing{IPOf: ipOf}, "203.0.113.7", "10.70.0.4", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.translator.Translate(tc.original)
			if unreachable, ok := errors.AsType[*address.UnreachableError](err); ok {
				assert.Equal(t, tc.err, unreachable)
				return
			}
			if tc.err != nil {
				require.ErrorIs(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.want, got)
		})
	}
	require.EqualError(t, &address.UnreachableError{Address: "203.0.113.9"},
		"peers do not reach address 203.0.113.9, which is not in a pod CIDR of this cluster: create an IP with spec.ip 203.0.113.9 in the namespace")
}
