package hostile_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme"
)

// text returns a domain name of a length, or a label if it is short enough.
func text(length int) string {
	name := []byte(strings.Repeat("a", length))
	for i := 63; i < length-1; i += 64 {
		name[i] = '.'
	}
	return string(name)
}

// qualified returns a prefixed name of a length: the prefix has 253 characters.
func qualified(length int) string { return text(253) + "/" + strings.Repeat("a", length-254) }

type template = offloadingv1beta1.EndpointSliceTemplate

func ofEndpoint(set func(*discoveryv1.Endpoint, int)) func(*template, int) {
	return func(s *template, n int) { set(&s.Endpoints[0], n) }
}

func ofTarget(set func(*corev1.ObjectReference, int)) func(*template, int) {
	return ofEndpoint(func(e *discoveryv1.Endpoint, n int) {
		e.TargetRef = &corev1.ObjectReference{}
		set(e.TargetRef, n)
	})
}

func ofPort(set func(*discoveryv1.EndpointPort, int)) func(*template, int) {
	return func(s *template, n int) { set(&s.Ports[0], n) }
}

func addresses(n int) []string {
	list := make([]string, 0, n)
	for i := range n {
		list = append(list, fmt.Sprintf("10.0.%d.%d", i/250, 1+i%250))
	}
	return list
}

func topology(n int) map[string]string {
	labels := map[string]string{}
	for i := range n {
		labels[fmt.Sprint("key", i)] = "x"
	}
	return labels
}

// bounded is a field of the template with the most that it takes, and what gives it as much.
type bounded struct {
	most int
	set  func(*template, int)
}

func boundedFields() map[string]bounded {
	return map[string]bounded{
		"addressType": {4, func(s *template, n int) { s.AddressType = discoveryv1.AddressType("IPv4" + strings.Repeat("4", n-4)) }},
		"endpoints": {1000, func(s *template, n int) {
			s.Endpoints = nil
			for _, address := range addresses(n) {
				s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}})
			}
		}},
		"endpoints[].addresses": {100, ofEndpoint(func(e *discoveryv1.Endpoint, n int) { e.Addresses = addresses(n) })},
		"endpoints[].addresses[]": {254, func(s *template, n int) {
			s.AddressType, s.Endpoints[0].Addresses = discoveryv1.AddressTypeFQDN, []string{text(n-1) + "."}
		}},
		"endpoints[].deprecatedTopology": {16, ofEndpoint(func(e *discoveryv1.Endpoint, n int) { e.DeprecatedTopology = topology(n) })},
		"endpoints[].deprecatedTopology, a key": {317, ofEndpoint(func(e *discoveryv1.Endpoint, n int) {
			e.DeprecatedTopology = map[string]string{qualified(n): ""}
		})},
		"endpoints[].deprecatedTopology, a value": {63, ofEndpoint(func(e *discoveryv1.Endpoint, n int) {
			e.DeprecatedTopology = map[string]string{"key": strings.Repeat("a", n)}
		})},
		"endpoints[].hints.forNodes": {8, ofEndpoint(func(e *discoveryv1.Endpoint, n int) {
			e.Hints = &discoveryv1.EndpointHints{}
			for i := range n {
				e.Hints.ForNodes = append(e.Hints.ForNodes, discoveryv1.ForNode{Name: fmt.Sprint("node-", i)})
			}
		})},
		"endpoints[].hints.forNodes[].name": {253, ofEndpoint(func(e *discoveryv1.Endpoint, n int) {
			e.Hints = &discoveryv1.EndpointHints{ForNodes: []discoveryv1.ForNode{{Name: text(n)}}}
		})},
		"endpoints[].hints.forZones": {8, ofEndpoint(func(e *discoveryv1.Endpoint, n int) {
			e.Hints = &discoveryv1.EndpointHints{}
			for i := range n {
				e.Hints.ForZones = append(e.Hints.ForZones, discoveryv1.ForZone{Name: fmt.Sprint("zone-", i)})
			}
		})},
		"endpoints[].hints.forZones[].name": {63, ofEndpoint(func(e *discoveryv1.Endpoint, n int) {
			e.Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: strings.Repeat("a", n)}}}
		})},
		"endpoints[].hostname":                  {63, ofEndpoint(func(e *discoveryv1.Endpoint, n int) { e.Hostname = ptr.To(strings.Repeat("a", n)) })},
		"endpoints[].nodeName":                  {253, ofEndpoint(func(e *discoveryv1.Endpoint, n int) { e.NodeName = ptr.To(text(n)) })},
		"endpoints[].zone":                      {253, ofEndpoint(func(e *discoveryv1.Endpoint, n int) { e.Zone = ptr.To(text(n)) })},
		"endpoints[].targetRef.apiVersion":      {317, ofTarget(func(r *corev1.ObjectReference, n int) { r.APIVersion = qualified(n) })},
		"endpoints[].targetRef.fieldPath":       {256, ofTarget(func(r *corev1.ObjectReference, n int) { r.FieldPath = text(n) })},
		"endpoints[].targetRef.kind":            {256, ofTarget(func(r *corev1.ObjectReference, n int) { r.Kind = text(n) })},
		"endpoints[].targetRef.name":            {256, ofTarget(func(r *corev1.ObjectReference, n int) { r.Name = text(n) })},
		"endpoints[].targetRef.namespace":       {256, ofTarget(func(r *corev1.ObjectReference, n int) { r.Namespace = text(n) })},
		"endpoints[].targetRef.resourceVersion": {256, ofTarget(func(r *corev1.ObjectReference, n int) { r.ResourceVersion = text(n) })},
		"endpoints[].targetRef.uid":             {256, ofTarget(func(r *corev1.ObjectReference, n int) { r.UID = types.UID(text(n)) })},
		"ports": {20000, func(s *template, n int) {
			s.Ports = nil
			for i := range n {
				s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: ptr.To(fmt.Sprint("p", i)), Protocol: ptr.To(corev1.ProtocolTCP)})
			}
		}},
		"ports[].appProtocol": {317, ofPort(func(p *discoveryv1.EndpointPort, n int) { p.AppProtocol = ptr.To(qualified(n)) })},
		"ports[].name":        {63, ofPort(func(p *discoveryv1.EndpointPort, n int) { p.Name = ptr.To(strings.Repeat("a", n)) })},
		"ports[].protocol": {4, ofPort(func(p *discoveryv1.EndpointPort, n int) {
			p.Protocol = ptr.To(corev1.Protocol("SCTP" + strings.Repeat("P", n-4)))
		})},
	}
}

// TestAShadowEndpointSliceIsBoundedAsAnEndpointSlice holds, for each field of the template, that the most that
// Kubernetes takes for an EndpointSlice is a legal ShadowEndpointSlice, and one more is not.
func TestAShadowEndpointSliceIsBoundedAsAnEndpointSlice(t *testing.T) {
	cluster := planetest.ForTest(t, "endpointslices")
	built, err := scheme.New()
	require.NoError(t, err)
	config := rest.CopyConfig(cluster.RESTConfig())
	config.QPS = -1
	c, err := client.New(config, client.Options{Scheme: built})
	require.NoError(t, err)
	for name, field := range boundedFields() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			with := func(n int) template {
				s := template{
					AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}},
					Ports: []discoveryv1.EndpointPort{{Name: ptr.To("web"), Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To[int32](80)}},
				}
				field.set(&s, n)
				return s
			}
			meta := metav1.ObjectMeta{Namespace: namespace, Name: "sample"}
			create := func(s template) error {
				return c.Create(t.Context(), &offloadingv1beta1.ShadowEndpointSlice{ObjectMeta: meta, Spec: offloadingv1beta1.ShadowEndpointSliceSpec{Template: s}}, client.DryRunAll)
			}
			legal := with(field.most)
			require.NoError(t, c.Create(t.Context(), &discoveryv1.EndpointSlice{
				ObjectMeta: meta, AddressType: legal.AddressType, Endpoints: legal.Endpoints, Ports: legal.Ports,
			}, client.DryRunAll), "it is a legal EndpointSlice")
			require.NoError(t, create(legal))
			err := create(with(field.most + 1))
			require.True(t, apierrors.IsInvalid(err), "%v", err)
			assert.Contains(t, err.Error(), "spec.template."+strings.FieldsFunc(name, func(r rune) bool { return r == '[' })[0])
		})
	}
}
