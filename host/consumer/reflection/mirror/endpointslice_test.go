package mirror

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	ipamv1alpha1 "github.com/longshore-dev/longshore/host/apis/ipam/v1alpha1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

func annotated(annotations ...string) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{Namespace: "shop", Name: "web"}
	for _, key := range annotations {
		metav1.SetMetaDataAnnotation(&meta, key, "true")
	}
	return meta
}

// sliceInput returns an input about an EndpointSlice of Service "web" with related objects.
func sliceInput(slice *discoveryv1.EndpointSlice, service *corev1.Service, nodes ...*corev1.Node) engine.Input {
	in := input(slice, nil)
	in.Related = []func(string) client.Object{
		relatedService: func(name string) client.Object {
			if service == nil || service.Name != name {
				return nil
			}
			return service
		},
		relatedNode: func(name string) client.Object {
			for _, node := range nodes {
				if node.Name == name {
					return node
				}
			}
			return nil
		},
	}
	return in
}

func TestAnEndpointSliceHasThePolicyOfItsService(t *testing.T) {
	const allow, skip = offloadingv1beta1.AllowReflectionAnnotation, offloadingv1beta1.SkipReflectionAnnotation
	service := &corev1.Service{ObjectMeta: annotated(allow)}
	ofService := func(meta metav1.ObjectMeta) *discoveryv1.EndpointSlice {
		meta.Labels = map[string]string{discoveryv1.LabelServiceName: "web"}
		return &discoveryv1.EndpointSlice{ObjectMeta: meta}
	}
	negated := annotated()
	negated.Annotations = map[string]string{skip: "False"}
	for name, tc := range map[string]struct {
		slice     *discoveryv1.EndpointSlice
		service   *corev1.Service
		want      offloadingv1beta1.ReflectionType
		ofService bool
	}{
		"without annotation, that of the Service":   {ofService(annotated()), service, offloadingv1beta1.AllowList, true},
		"a negated annotation is none":              {ofService(negated), service, offloadingv1beta1.AllowList, true},
		"its own annotation that skips comes first": {ofService(annotated(skip)), service, engine.Explicit, false},
		"its own annotation that allows too":        {ofService(annotated(allow)), service, engine.Explicit, false},
		"both are an error of the slice":            {ofService(annotated(skip, allow)), service, engine.Explicit, false},
		"without the Service, its own":              {ofService(annotated()), nil, offloadingv1beta1.AllowList, false},
		"without a label, its own":                  {&discoveryv1.EndpointSlice{ObjectMeta: annotated()}, service, offloadingv1beta1.AllowList, false},
	} {
		t.Run(name, func(t *testing.T) {
			policy, object := define(endpointSlice, "").ReflectionPolicy(sliceInput(tc.slice, tc.service))
			assert.Equal(t, tc.want, policy)
			if tc.ofService {
				assert.Same(t, client.Object(service), object)
			} else {
				assert.Same(t, client.Object(tc.slice), object)
			}
		})
	}
}

func TestEndpointsOfTheProviderAndOfUnknownNodesAreLeftOut(t *testing.T) {
	node := func(name, cluster string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if cluster != "" {
			n.Labels = map[string]string{liqocorev1beta1.RemoteClusterIDLabel: cluster}
		}
		return n
	}
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metadata, AddressType: discoveryv1.AddressTypeIPv4}
	for address, nodeName := range map[string]*string{
		"10.0.0.1": ptr.To("worker"), "10.0.0.2": ptr.To("milan-node"), "10.0.0.3": ptr.To("turin-node"), "10.0.0.4": ptr.To("gone"), "203.0.113.1": nil,
	} {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}, NodeName: nodeName})
	}
	got := &offloadingv1beta1.ShadowEndpointSlice{}
	applied(t, define(endpointSlice, ""), sliceInput(slice, nil, node("worker", ""), node("milan-node", "milan"), node("turin-node", "turin")), got)
	var addresses []string
	for _, endpoint := range got.Spec.Template.Endpoints {
		addresses = append(addresses, endpoint.Addresses...)
		assert.Equal(t, ptr.To("rome-1"), endpoint.NodeName)
	}
	assert.ElementsMatch(t, []string{"10.0.0.1", "10.0.0.3", "203.0.113.1"}, addresses)
}

func TestTheSliceOfTheAPIServerIsLeft(t *testing.T) {
	in := sliceInput(&discoveryv1.EndpointSlice{}, nil)
	in.Key = engine.Key{Namespace: "default", Name: "kubernetes"}
	assert.Equal(t, []string{"keep: it has the endpoints of the API server"}, steps(t, define(endpointSlice, ""), in))
}

func TestAddressesOfEndpointsAreTranslatedForTheProvider(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metadata, AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{
		{Addresses: []string{"10.1.0.5"}, NodeName: ptr.To("worker")}, {Addresses: []string{"203.0.113.1"}},
	}}
	ip := &ipamv1alpha1.IP{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}, Spec: ipamv1alpha1.IPSpec{IP: "203.0.113.1"}, Status: ipamv1alpha1.IPStatus{IP: "10.70.0.4"},
	}
	isTranslated := true
	d := define(endpointSlice, "")
	d.options.LocalPods = func() ([]netip.Prefix, bool) {
		return []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}, isTranslated
	}
	ips := []client.Object{ip}
	in := sliceInput(slice, nil, node)
	in.Related = append(in.Related, func(address string) client.Object {
		for _, ip := range ips {
			if d.Resource().Related[relatedIP].Matches(ip, address) {
				return ip
			}
		}
		return nil
	})
	addresses := func() []string {
		t.Helper()
		got := &offloadingv1beta1.ShadowEndpointSlice{}
		applied(t, d, in, got)
		var addresses []string
		for _, endpoint := range got.Spec.Template.Endpoints {
			addresses = append(addresses, endpoint.Addresses...)
		}
		return addresses
	}
	assert.Equal(t, []string{"10.1.0.5", "10.70.0.4"}, addresses())

	// A pod of another provider, or of the network of its node: the others are sent, so that none that
	// has ended stays ready in the provider.
	ips = nil
	actions, err := d.Decide(in)
	require.NoError(t, err)
	require.Len(t, actions, 3)
	event := actions[1].(engine.RecordEvent)
	assert.Equal(t, engine.ReasonFailedReflection, event.Reason)
	assert.Contains(t, event.Message, `cluster milan: translating the address "203.0.113.1" of an endpoint: peers do not reach address 203.0.113.1`)
	config, isSlice := actions[0].(engine.Apply).Config.(*remote.ShadowEndpointSliceApplyConfiguration)
	require.True(t, isSlice)
	require.Len(t, config.Spec.Template.Endpoints, 1)
	assert.Equal(t, []string{"10.1.0.5"}, config.Spec.Template.Endpoints[0].Addresses)
	isTranslated = false
	assert.Equal(t, []string{"10.1.0.5", "203.0.113.1"}, addresses(), "without Configuration of the provider")

	isTranslated = true
	slice.AddressType, slice.Endpoints[0].Addresses, slice.Endpoints[1].Addresses = discoveryv1.AddressTypeFQDN, []string{"a.example.com"}, []string{"b.example.com"}
	assert.Equal(t, []string{"a.example.com", "b.example.com"}, addresses(), "names are not translated")
}

func TestRelatedObjectsRequeueTheirEndpointSlices(t *testing.T) {
	slice := func(name, service, node string) client.Object {
		return &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
			Endpoints:  []discoveryv1.Endpoint{{}, {NodeName: ptr.To(node)}, {NodeName: ptr.To(node)}},
		}
	}
	locals := []client.Object{slice("web-1", "web", "a"), slice("web-2", "web", "b"), slice("db-1", "db", "a")}
	related := define(endpointSlice, "").Resource().Related
	assert.Equal(t, []string{"web-1", "web-2"}, related[relatedService].Keys(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, locals))
	assert.Equal(t, []string{"web-1", "db-1"}, related[relatedNode].Keys(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, locals))
	assert.True(t, related[relatedNode].Kind.ClusterScoped)
	withAddress := slice("db-2", "db", "a")
	withAddress.(*discoveryv1.EndpointSlice).Endpoints[2].Addresses = []string{"203.0.113.1"}
	ip := &ipamv1alpha1.IP{Spec: ipamv1alpha1.IPSpec{IP: "203.0.113.1"}}
	assert.Equal(t, []string{"db-2"}, related[relatedIP].Keys(ip, append(locals, withAddress)))

	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{liqocorev1beta1.RemoteClusterIDLabel: "milan"}},
		Spec:       corev1.NodeSpec{ProviderID: "x"}, Status: corev1.NodeStatus{Images: make([]corev1.ContainerImage, 3)},
	}
	related[relatedNode].Kind.Trim(node)
	assert.Equal(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{liqocorev1beta1.RemoteClusterIDLabel: "milan"}}}, node)
}
