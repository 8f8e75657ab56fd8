package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	ipamv1alpha1 "github.com/longshore-dev/longshore/host/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/longshore-dev/longshore/host/apis/networking/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
	"github.com/longshore-dev/longshore/host/kit/address"
	"github.com/longshore-dev/longshore/host/kit/ipam"
)

const own = "longshore"

// environment is a cluster with the three controllers.
type environment struct {
	client.WithWatch
	networks       *Networks
	ips            *IPs
	configurations *Configurations
	events         chan string
	// failStatus fails the next write of a status after it reached the API server.
	failStatus bool
}

func newEnvironment(objects ...client.Object) *environment {
	e := &environment{}
	e.WithWatch = fakeclient.Builder(objects...).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if o.GetName() == "milan-pod-10-51-0-0-16" {
					return apierrors.NewInvalid(ipamv1alpha1.GroupVersion.WithKind("Network").GroupKind(), o.GetName(), field.ErrorList{
						field.TooLong(field.NewPath("metadata", "name"), nil, 253),
					})
				}
				return c.Create(ctx, o, opts...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, name string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				err := c.SubResource(name).Patch(ctx, o, p, opts...)
				if e.failStatus {
					e.failStatus = false
					return errors.Join(err, context.DeadlineExceeded)
				}
				return err
			},
		}).Build()
	e.restart()
	return e
}

// restart replaces the controllers by new ones, which know what the objects say.
func (e *environment) restart() {
	recorder := events.NewFakeRecorder(100)
	e.events = recorder.Events
	pools := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.168.0.0/16")}
	e.networks = &Networks{Client: e, APIReader: e, Events: recorder, Pools: pools}
	e.ips = &IPs{Client: e, APIReader: e, Events: recorder, Namespace: own}
	e.configurations = &Configurations{Client: e, Events: recorder, Namespace: own}
}

func request(object client.Object) ctrl.Request {
	return ctrl.Request{NamespacedName: client.ObjectKeyFromObject(object)}
}

// settle reconciles everything until nothing changes.
func (e *environment) settle(t *testing.T) {
	t.Helper()
	for range 10 {
		before := e.versions(t)
		e.each(t, &networkingv1beta1.ConfigurationList{}, e.configurations)
		e.each(t, &ipamv1alpha1.NetworkList{}, e.networks)
		e.each(t, &ipamv1alpha1.IPList{}, e.ips)
		if assert.ObjectsAreEqual(before, e.versions(t)) {
			return
		}
	}
	require.Fail(t, "the controllers do not come to rest")
}

func (e *environment) each(t *testing.T, list client.ObjectList, r reconcile.Reconciler) {
	t.Helper()
	require.NoError(t, e.List(t.Context(), list))
	items, err := meta.ExtractList(list)
	require.NoError(t, err)
	for _, item := range items {
		_, _ = r.Reconcile(t.Context(), request(item.(client.Object))) // a failure shows in the objects
	}
}

func (e *environment) versions(t *testing.T) map[string]string {
	t.Helper()
	versions := map[string]string{}
	for _, list := range []client.ObjectList{&networkingv1beta1.ConfigurationList{}, &ipamv1alpha1.NetworkList{}, &ipamv1alpha1.IPList{}} {
		require.NoError(t, e.List(t.Context(), list))
		items, err := meta.ExtractList(list)
		require.NoError(t, err)
		for _, item := range items {
			object := item.(client.Object)
			versions[object.GetNamespace()+"/"+object.GetName()] += object.GetResourceVersion()
		}
	}
	return versions
}

func (e *environment) cidr(t *testing.T, namespace, name string) string {
	t.Helper()
	network := &ipamv1alpha1.Network{}
	require.NoError(t, e.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, network))
	return string(network.Status.CIDR)
}

func (e *environment) ip(t *testing.T, name string) ipamv1alpha1.IPStatus {
	t.Helper()
	ip := &ipamv1alpha1.IP{}
	require.NoError(t, e.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: name}, ip))
	return ip.Status
}

func (e *environment) configuration(t *testing.T) *networkingv1beta1.Configuration {
	t.Helper()
	configuration := &networkingv1beta1.Configuration{}
	require.NoError(t, e.Get(t.Context(), client.ObjectKey{Namespace: "liqo-tenant-milan", Name: "milan"}, configuration))
	return configuration
}

func newNetwork(namespace, name, cidr string, labels map[string]string) *ipamv1alpha1.Network {
	return &ipamv1alpha1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels, UID: "uid-" + "1"},
		Spec:       ipamv1alpha1.NetworkSpec{CIDR: networkingv1beta1.CIDR(cidr)},
	}
}

func ownNetwork(name, cidr string, kind ipamv1alpha1.NetworkType) *ipamv1alpha1.Network {
	labels := map[string]string{ipamv1alpha1.NetworkTypeLabel: string(kind)}
	if kind != ipamv1alpha1.ExternalCIDRNetwork && kind != ipamv1alpha1.InternalCIDRNetwork {
		labels[ipamv1alpha1.NetworkNotRemappedLabel], labels[ipamv1alpha1.NetworkSharedLabel] = "true", "true"
	}
	network := newNetwork(own, name, cidr, labels)
	if kind == ipamv1alpha1.ExternalCIDRNetwork {
		network.Spec.PreAllocated = 1
	}
	return network
}

// ownNetworksOfChart are the Networks that the chart makes.
func ownNetworksOfChart() []client.Object {
	return []client.Object{
		ownNetwork("pod-cidr", "10.244.0.0/16", ipamv1alpha1.PodCIDRNetwork),
		ownNetwork("service-cidr", "10.96.0.0/12", ipamv1alpha1.ServiceCIDRNetwork),
		ownNetwork("external-cidr", "10.70.0.0/16", ipamv1alpha1.ExternalCIDRNetwork),
		ownNetwork("internal-cidr", "10.80.0.0/16", ipamv1alpha1.InternalCIDRNetwork),
	}
}

func newIP(name, address string) *ipamv1alpha1.IP {
	return &ipamv1alpha1.IP{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: "uid-1"},
		Spec:       ipamv1alpha1.IPSpec{IP: networkingv1beta1.IP(address)},
	}
}

func newConfiguration(pods ...networkingv1beta1.CIDR) *networkingv1beta1.Configuration {
	return &networkingv1beta1.Configuration{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "liqo-tenant-milan", Name: "milan", UID: "uid-2", Generation: 1, Labels: map[string]string{"liqo.io/remote-cluster-id": "milan"},
		},
		Spec: networkingv1beta1.ConfigurationSpec{Remote: networkingv1beta1.ClusterNetwork{CIDR: networkingv1beta1.ClusterCIDRs{
			Pod: pods, External: []networkingv1beta1.CIDR{"10.70.0.0/16"},
		}}},
	}
}

func TestTheConfigurationOfAPeerWithTheSameNetworks(t *testing.T) {
	e := newEnvironment(append(ownNetworksOfChart(), newConfiguration("10.244.0.0/16", "10.50.0.0/16"))...)
	e.settle(t)
	configuration := e.configuration(t)
	require.NotNil(t, configuration.Spec.Local)
	assert.Equal(t, networkingv1beta1.ClusterCIDRs{
		Pod: []networkingv1beta1.CIDR{"10.244.0.0/16"}, External: []networkingv1beta1.CIDR{"10.70.0.0/16"},
	}, configuration.Spec.Local.CIDR)
	require.NotNil(t, configuration.Status.Remote)
	remote := configuration.Status.Remote.CIDR
	require.Len(t, remote.Pod, 2)
	assert.Equal(t, networkingv1beta1.CIDR("10.50.0.0/16"), remote.Pod[1], "a free CIDR is not remapped, and the order is that of the spec")
	var all []netip.Prefix
	for _, cidr := range []networkingv1beta1.CIDR{remote.Pod[0], remote.Pod[1], remote.External[0], "10.244.0.0/16", "10.96.0.0/12", "10.70.0.0/16", "10.80.0.0/16"} {
		prefix := netip.MustParsePrefix(string(cidr))
		for _, other := range all {
			assert.False(t, prefix.Overlaps(other), "%s overlaps %s", prefix, other)
		}
		all = append(all, prefix)
	}
	assert.True(t, meta.IsStatusConditionTrue(configuration.Status.Conditions, networkingv1beta1.NetworkCIDRsConfigured))
	network := &ipamv1alpha1.Network{}
	require.NoError(t, e.Get(t.Context(), client.ObjectKey{Namespace: "liqo-tenant-milan", Name: "milan-pod-10-244-0-0-16"}, network))
	assert.Equal(t, map[string]string{"liqo.io/remote-cluster-id": "milan", "configuration.liqo.io/cidr-type": "pod"}, network.Labels)
	assert.True(t, metav1.IsControlledBy(network, configuration))
}

// Longshore remaps IPv4: the other networks of a peer are the same in all clusters.
func TestAnIPv6NetworkOfAPeerIsNotRemapped(t *testing.T) {
	configuration := newConfiguration("fd00:10:244::/56", "10.244.0.0/16")
	configuration.Spec.Remote.CIDR.External = append(configuration.Spec.Remote.CIDR.External, "fd00:70::/64")
	e := newEnvironment(append(ownNetworksOfChart(), configuration)...)
	e.settle(t)
	configuration = e.configuration(t)
	assert.True(t, meta.IsStatusConditionTrue(configuration.Status.Conditions, networkingv1beta1.NetworkCIDRsConfigured))
	require.NotNil(t, configuration.Status.Remote)
	remote := configuration.Status.Remote.CIDR
	require.Len(t, remote.Pod, 2)
	require.Len(t, remote.External, 2)
	assert.Equal(t, networkingv1beta1.CIDR("fd00:10:244::/56"), remote.Pod[0])
	assert.NotEqual(t, networkingv1beta1.CIDR("10.244.0.0/16"), remote.Pod[1], "this cluster uses it")
	assert.Equal(t, networkingv1beta1.CIDR("fd00:70::/64"), remote.External[1])
	peer, err := address.NewPeer(configuration)
	require.NoError(t, err)
	translated, err := peer.Translate("10.244.3.9")
	require.NoError(t, err)
	assert.True(t, netip.MustParsePrefix(string(remote.Pod[1])).Contains(netip.MustParseAddr(translated)), translated)
	translated, err = peer.Translate("fd00:10:244::9")
	require.NoError(t, err)
	assert.Equal(t, "fd00:10:244::9", translated)
}

func TestAChangedConfigurationHasOtherNetworks(t *testing.T) {
	e := newEnvironment(append(ownNetworksOfChart(), newConfiguration("10.50.0.0/16"))...)
	e.settle(t)
	configuration := e.configuration(t)
	configuration.Spec.Remote.CIDR.Pod = []networkingv1beta1.CIDR{"10.60.0.0/16"}
	configuration.Generation++
	require.NoError(t, e.Update(t.Context(), configuration))
	e.settle(t)
	configuration = e.configuration(t)
	assert.Equal(t, []networkingv1beta1.CIDR{"10.60.0.0/16"}, configuration.Status.Remote.CIDR.Pod)
	assert.Equal(t, configuration.Generation, meta.FindStatusCondition(configuration.Status.Conditions, networkingv1beta1.NetworkCIDRsConfigured).ObservedGeneration)
	require.Error(t, e.Get(t.Context(), client.ObjectKey{Namespace: "liqo-tenant-milan", Name: "milan-pod-10-50-0-0-16"}, &ipamv1alpha1.Network{}))
	// The CIDR of a Network that is gone is free again.
	_, err := e.networks.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "liqo-tenant-milan", Name: "milan-pod-10-50-0-0-16"}})
	require.NoError(t, err)
	again := newNetwork("liqo-tenant-paris", "paris-pod", "10.50.0.0/16", nil)
	require.NoError(t, e.Create(t.Context(), again))
	e.settle(t)
	assert.Equal(t, "10.50.0.0/16", e.cidr(t, "liqo-tenant-paris", "paris-pod"))
}

func TestAConfigurationWaitsForNetworks(t *testing.T) {
	for name, tc := range map[string]struct {
		objects         []client.Object
		reason, message string
	}{
		"the own networks are missing": {[]client.Object{newConfiguration("10.50.0.0/16")}, "WaitingForNetworks",
			"The Networks of this cluster in namespace longshore have no CIDRs yet. Their events say why."},
		"no CIDR is free": {append(ownNetworksOfChart(), newConfiguration("10.50.0.0/16", "10.0.0.0/8")), "WaitingForNetworks",
			"Networks of namespace liqo-tenant-milan have no CIDRs yet: milan-pod-10-0-0-0-8. Their events say why."},
		"a Network of another owner has the name": {append(ownNetworksOfChart(), newConfiguration("10.50.0.0/16"),
			newNetwork("liqo-tenant-milan", "milan-pod-10-50-0-0-16", "10.50.0.0/16", nil)), "NetworkNameTaken",
			`Network "milan-pod-10-50-0-0-16" exists and is not controlled by the Configuration. Delete the Network.`},
		"the API server refuses a Network": {append(ownNetworksOfChart(), newConfiguration("10.51.0.0/16")), "NetworkRefused",
			`The API server refuses Network "milan-pod-10-51-0-0-16". Correct the Configuration: Network.ipam.liqo.io "milan-pod-10-51-0-0-16" is invalid: metadata.name: Too long: may not be more than 253 bytes`},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnvironment(tc.objects...)
			e.settle(t)
			configuration := e.configuration(t)
			condition := meta.FindStatusCondition(configuration.Status.Conditions, networkingv1beta1.NetworkCIDRsConfigured)
			require.NotNil(t, condition)
			assert.Equal(t, metav1.ConditionFalse, condition.Status)
			assert.Equal(t, tc.reason, condition.Reason)
			assert.Equal(t, tc.message, condition.Message)
			assert.Nil(t, configuration.Status.Remote)
		})
	}
}

func TestAConfigurationWithoutPeerIsIgnored(t *testing.T) {
	configuration := newConfiguration("10.50.0.0/16")
	configuration.Labels = nil
	e := newEnvironment(append(ownNetworksOfChart(), configuration)...)
	e.settle(t)
	assert.Nil(t, e.configuration(t).Spec.Local)
	event := <-e.events
	assert.True(t, strings.HasPrefix(event, "Warning "+reasonIgnored+" "), event)
	assert.Contains(t, event, liqocorev1beta1.RemoteClusterIDLabel, "the label that is missing")
}

// The peers' networks are reconciled first, and the networks of this cluster have no CIDR yet.
func TestFixedNetworksGetTheirCIDRInAnyOrder(t *testing.T) {
	peer := newNetwork("liqo-tenant-milan", "milan-pod", "10.244.0.0/16", nil)
	e := newEnvironment(append(ownNetworksOfChart(), peer)...)
	_, err := e.networks.Reconcile(t.Context(), request(peer))
	require.NoError(t, err)
	e.settle(t)
	assert.Equal(t, "10.244.0.0/16", e.cidr(t, own, "pod-cidr"))
	assert.NotEqual(t, "10.244.0.0/16", e.cidr(t, "liqo-tenant-milan", "milan-pod"))
}

func TestAFixedNetworkThatIsTakenGetsNoCIDR(t *testing.T) {
	e := newEnvironment(newNetwork("liqo-tenant-milan", "milan-pod", "10.50.0.0/16", nil))
	e.settle(t)
	require.NoError(t, e.Create(t.Context(), ownNetwork("reserved", "10.50.0.0/24", ipamv1alpha1.ReservedNetwork)))
	e.settle(t)
	assert.Empty(t, e.cidr(t, own, "reserved"))
	taken := &ipam.OverlapError{CIDR: netip.MustParsePrefix("10.50.0.0/24"), Other: netip.MustParsePrefix("10.50.0.0/16")}
	assert.Equal(t, fmt.Sprintf("Warning %s The network gets no CIDR: %v.", ReasonNotAllocated, taken), <-e.events)
}

func TestAllocationsSurviveARestart(t *testing.T) {
	e := newEnvironment(append(ownNetworksOfChart(), newConfiguration("10.244.0.0/16"), newIP("one", "203.0.113.7"))...)
	e.settle(t)
	remote, one := e.configuration(t).Status.Remote, e.ip(t, "one")
	e.restart()
	require.NoError(t, e.Create(t.Context(), newNetwork("liqo-tenant-paris", "paris-pod", "10.244.0.0/16", nil)))
	require.NoError(t, e.Create(t.Context(), newIP("two", "203.0.113.8")))
	e.settle(t)
	assert.Equal(t, remote, e.configuration(t).Status.Remote)
	assert.NotEqual(t, string(remote.CIDR.Pod[0]), e.cidr(t, "liqo-tenant-paris", "paris-pod"))
	assert.Equal(t, one, e.ip(t, "one"))
	assert.Equal(t, networkingv1beta1.IP("10.70.0.2"), e.ip(t, "two").IP)
}

// A write may reach the API server although its answer does not come back.
func TestAnAllocationIsMadeOnce(t *testing.T) {
	e := newEnvironment(append(ownNetworksOfChart(), newIP("one", "203.0.113.7"), newIP("two", "203.0.113.8"))...)
	e.each(t, &ipamv1alpha1.NetworkList{}, e.networks)
	e.failStatus = true
	_, err := e.ips.Reconcile(t.Context(), request(newIP("one", "")))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	e.settle(t)
	assert.Equal(t, networkingv1beta1.IP("10.70.0.1"), e.ip(t, "one").IP, "the first address of the external CIDR is preallocated")
	assert.Equal(t, networkingv1beta1.IP("10.70.0.2"), e.ip(t, "two").IP)
}

// The cache may lack the write of the previous reconciliation.
func TestAStaleCacheAllocatesNothingTwice(t *testing.T) {
	one, two := newIP("one", "203.0.113.7"), newIP("two", "203.0.113.8")
	e := newEnvironment(append(ownNetworksOfChart(), one, two)...)
	e.each(t, &ipamv1alpha1.NetworkList{}, e.networks)
	stale := map[client.ObjectKey]client.Object{}
	for _, ip := range []*ipamv1alpha1.IP{one, two} {
		current := &ipamv1alpha1.IP{}
		require.NoError(t, e.Get(t.Context(), client.ObjectKeyFromObject(ip), current))
		stale[client.ObjectKeyFromObject(ip)] = current
	}
	e.ips.Client = interceptor.NewClient(e, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if ip, ok := o.(*ipamv1alpha1.IP); ok {
				stale[key].(*ipamv1alpha1.IP).DeepCopyInto(ip)
				return nil
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	for _, ip := range []*ipamv1alpha1.IP{one, two} {
		_, err := e.ips.Reconcile(t.Context(), request(ip))
		require.NoError(t, err)
		_, err = e.ips.Reconcile(t.Context(), request(ip))
		require.Error(t, err, "the write of a stale object is a conflict")
	}
	assert.Equal(t, networkingv1beta1.IP("10.70.0.1"), e.ip(t, "one").IP)
	assert.Equal(t, networkingv1beta1.IP("10.70.0.2"), e.ip(t, "two").IP)
}

func TestIPs(t *testing.T) {
	small := newNetwork("shop", "small", "10.9.0.0/31", nil)
	ofSmall := newIP("small", "203.0.113.9")
	ofSmall.Spec.NetworkRef = &corev1.ObjectReference{Name: "small"}
	full := newIP("full", "203.0.113.10")
	full.Spec.NetworkRef = &corev1.ObjectReference{Namespace: "shop", Name: "small"}
	absent := newIP("absent", "203.0.113.11")
	absent.Spec.NetworkRef = &corev1.ObjectReference{Name: "no-such-network"}
	e := newEnvironment(append(ownNetworksOfChart(), small, ofSmall, newIP("one", "203.0.113.7"), absent)...)
	e.settle(t)
	assert.Equal(t, ipamv1alpha1.IPStatus{IP: "10.70.0.1", CIDR: "10.70.0.0/16"}, e.ip(t, "one"))
	assert.Equal(t, ipamv1alpha1.IPStatus{IP: "10.9.0.0", CIDR: "10.9.0.0/31"}, e.ip(t, "small"))
	assert.Empty(t, e.ip(t, "absent").IP)
	assert.Len(t, e.ips.pendingIPs(t.Context(), nil), 1, "the event of a Network enqueues the IPs without address")

	require.NoError(t, e.Create(t.Context(), full))
	e.settle(t)
	assert.Equal(t, networkingv1beta1.IP("10.9.0.1"), e.ip(t, "full").IP)
	more := newIP("more", "203.0.113.12")
	more.Spec.NetworkRef = full.Spec.NetworkRef
	require.NoError(t, e.Create(t.Context(), more))
	e.settle(t)
	assert.Empty(t, e.ip(t, "more").IP)
	event := <-e.events
	assert.True(t, strings.HasPrefix(event, "Warning "+ReasonNotAllocated+" "), event)
	assert.Contains(t, event, "Network shop/small has no free address. Delete IPs that are not used.")

	// The address of an IP that is gone is free again, and is given out after all others.
	require.NoError(t, e.Delete(t.Context(), ofSmall))
	_, err := e.ips.Reconcile(t.Context(), request(ofSmall))
	require.NoError(t, err)
	e.settle(t)
	assert.Equal(t, networkingv1beta1.IP("10.9.0.0"), e.ip(t, "more").IP)
}

func TestTheIPOfTheAPIServer(t *testing.T) {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"}, Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.1"}}
	e := newEnvironment(service)
	r := &APIServer{Client: e, APIReader: e, Namespace: own}
	key := client.ObjectKey{Namespace: own, Name: "api-server"}
	reconcileIt := func() *ipamv1alpha1.IP {
		_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
		require.NoError(t, err)
		ip := &ipamv1alpha1.IP{}
		if e.Get(t.Context(), key, ip) != nil {
			return nil
		}
		return ip
	}
	ip := reconcileIt()
	assert.Equal(t, networkingv1beta1.IP("10.96.0.1"), ip.Spec.IP)
	assert.Equal(t, map[string]string{"ipam.liqo.io/ip-type": "api-server"}, ip.Labels)
	assert.Equal(t, map[string]string{"liqo.io/preinstalled": "true"}, ip.Annotations)
	assert.Equal(t, ip.ResourceVersion, reconcileIt().ResourceVersion)
	service.Spec.ClusterIP = "10.97.0.1"
	require.NoError(t, e.Update(t.Context(), service))
	assert.Nil(t, reconcileIt())
	assert.Equal(t, networkingv1beta1.IP("10.97.0.1"), reconcileIt().Spec.IP)
}
