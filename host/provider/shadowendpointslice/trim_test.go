package shadowendpointslice

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/provider"
	"github.com/longshore-dev/longshore/host/internal/testkit"
	"github.com/longshore-dev/longshore/host/kit/address"
	"github.com/longshore-dev/longshore/host/provider/metadata"
)

// endpoints returns endpoints as Kubernetes' controller has them.
func endpoints(n int) []discoveryv1.Endpoint {
	var list []discoveryv1.Endpoint
	for i := range n {
		e := testkit.Endpoint(ptr.To(true), ptr.To(true), ptr.To(false))
		e.Addresses = []string{fmt.Sprintf("10.0.%d.%d", i/250, 1+i%250)}
		list = append(list, e)
	}
	return list
}

func TestTrim(t *testing.T) {
	many := map[string]string{}
	for i := range 1000 {
		many[fmt.Sprint("key-", i)] = "x"
	}
	for name, tc := range map[string]struct {
		edit    func(*offloadingv1beta1.ShadowEndpointSlice)
		isLarge bool
	}{
		"a slice of Kubernetes' controller": {edit: func(s *offloadingv1beta1.ShadowEndpointSlice) { s.Spec.Template.Endpoints = endpoints(100) }},
		"what is not read": {edit: func(s *offloadingv1beta1.ShadowEndpointSlice) {
			s.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: strings.Repeat("a", maxCached)}}
			s.Annotations[provider.DirectConnectionsDataAnnotation] = strings.Repeat("a", maxCached)
			s.Spec.Template.Endpoints = endpoints(1)
			s.Spec.Template.Endpoints[0].DeprecatedTopology = map[string]string{"a": strings.Repeat("a", maxCached)}
		}},
		"endpoints": {func(s *offloadingv1beta1.ShadowEndpointSlice) { s.Spec.Template.Endpoints = endpoints(1000) }, true},
		"empty endpoints": {func(s *offloadingv1beta1.ShadowEndpointSlice) {
			s.Spec.Template.Endpoints = make([]discoveryv1.Endpoint, 1000)
		}, true},
		"empty ports": {func(s *offloadingv1beta1.ShadowEndpointSlice) {
			s.Spec.Template.Ports = make([]discoveryv1.EndpointPort, 1000)
		}, true},
		"addresses": {func(s *offloadingv1beta1.ShadowEndpointSlice) {
			s.Spec.Template.Endpoints = []discoveryv1.Endpoint{{Addresses: make([]string, 4096)}}
		}, true},
		"labels":        {func(s *offloadingv1beta1.ShadowEndpointSlice) { s.Labels = many }, true},
		"an annotation": {func(s *offloadingv1beta1.ShadowEndpointSlice) { s.Annotations["note"] = strings.Repeat("a", maxCached) }, true},
		"finalizers": {func(s *offloadingv1beta1.ShadowEndpointSlice) {
			s.Finalizers = []string{strings.Repeat("a", maxCached)}
		}, true},
		"owner references": {func(s *offloadingv1beta1.ShadowEndpointSlice) {
			s.OwnerReferences = make([]metav1.OwnerReference, 1000)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			shadow := testkit.ShadowEndpointSlice(testkit.Endpoint())
			tc.edit(shadow)
			before := shadow.DeepCopy()
			trimmed, err := Trim(shadow)
			require.NoError(t, err)
			assert.Same(t, shadow, trimmed)
			assert.Equal(t, before.UID, shadow.UID)
			assert.Equal(t, before.Labels[offloadingv1beta1.OriginLabel], shadow.Labels[offloadingv1beta1.OriginLabel], "slices are found by it")
			assert.LessOrEqual(t, sizeOf(shadow, shadow.Spec.Template.Endpoints, shadow.Spec.Template.Ports), maxCached)
			if tc.isLarge {
				assert.Empty(t, shadow.Spec.Template)
				return
			}
			want, _ := provider.EndpointSlice(before, true, address.Identity{}.Translate)
			got, _ := provider.EndpointSlice(shadow, true, address.Identity{}.Translate)
			assert.Equal(t, want, got, "what is cached makes the same EndpointSlice")
		})
	}
}

func TestTrimKeepsTheOwnerOfALargeEndpointSlice(t *testing.T) {
	slice, _ := provider.EndpointSlice(testkit.ShadowEndpointSlice(endpoints(1000)...), true, address.Identity{}.Translate)
	trimmed, err := Trim(slice)
	require.NoError(t, err)
	assert.Same(t, slice, trimmed)
	assert.True(t, metav1.IsControlledBy(slice, testkit.ShadowEndpointSlice()))
	assert.True(t, metadata.WasCreatedFor(slice, offloadingv1beta1.ShadowEndpointSliceGVK))
	assert.Equal(t, offloadingv1beta1.ManagedByShadowEndpointSlice, slice.Labels[offloadingv1beta1.ManagedByLabel])
	assert.Empty(t, slice.Endpoints)
	assert.Empty(t, slice.Ports)
	assert.Empty(t, slice.AddressType)
}

// TestALargeSliceIsReadFromTheAPIServer has a cache that holds what Trim leaves.
func TestALargeSliceIsReadFromTheAPIServer(t *testing.T) {
	for _, n := range []int{100, 1000} {
		e := newEnvironment(testkit.ShadowEndpointSlice(endpoints(n)...))
		live := e.Client.(client.WithWatch)
		reads := 0
		e.reconciler.APIReader = interceptor.NewClient(live, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
				reads++
				return c.Get(ctx, key, object, options...)
			},
		})
		e.reconciler.Client = interceptor.NewClient(live, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
				if err := c.Get(ctx, key, object, options...); err != nil {
					return err
				}
				_, err := Trim(object)
				return err
			},
		})
		slice, writes, _ := e.reconcile(t)
		assert.Equal(t, []string{"create"}, writes)
		assert.Len(t, slice.Endpoints, n)
		_, writes, _ = e.reconcile(t)
		assert.Empty(t, writes, "nothing has changed")
		e.change(t, func(s *offloadingv1beta1.ShadowEndpointSlice) {
			s.Labels["new"], s.Spec.Template.Endpoints = "x", s.Spec.Template.Endpoints[1:]
		})
		slice, writes, _ = e.reconcile(t)
		assert.Equal(t, []string{"patch"}, writes)
		assert.Len(t, slice.Endpoints, n-1)
		assert.Equal(t, "x", slice.Labels["new"])
		assert.Equal(t, n > 100, reads > 0, "only what is not cached is read there")
	}
}
