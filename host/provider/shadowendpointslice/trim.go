package shadowendpointslice

import (
	"context"
	"fmt"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/provider"
	"github.com/longshore-dev/longshore/host/provider/metadata"
)

// What the cache keeps of one object of a consumer. An object may be as large as etcd takes, and a consumer has many.
const (
	// maxCached is the size up to which an object is kept whole. Slices of Kubernetes' own controller, which have a
	// hundred endpoints, are smaller.
	maxCached = 64 << 10
	// itemSize is what an endpoint, a port, or an entry of a map is in memory beside its texts, textSize an address.
	itemSize, textSize = 128, 16
)

// Trim is a cache transformation of ShadowEndpointSlices and of their EndpointSlices. It drops what the Reconciler
// does not read, and of a large object all but its identity: the Reconciler reads these from the API server.
func Trim(object any) (any, error) {
	switch slice := object.(type) {
	case *offloadingv1beta1.ShadowEndpointSlice:
		slice.ManagedFields = nil
		delete(slice.Annotations, provider.DirectConnectionsDataAnnotation)
		template := &slice.Spec.Template
		for i := range template.Endpoints {
			template.Endpoints[i].DeprecatedTopology = nil
		}
		if sizeOf(slice, template.Endpoints, template.Ports) > maxCached {
			slice.ObjectMeta = identityOf(slice, offloadingv1beta1.OriginLabel)
			*template = offloadingv1beta1.EndpointSliceTemplate{}
		}
		return slice, nil
	case *discoveryv1.EndpointSlice:
		trimmed, err := metadata.Trim(slice)
		if sizeOf(slice, slice.Endpoints, slice.Ports) > maxCached {
			slice.ObjectMeta = identityOf(slice, offloadingv1beta1.ManagedByLabel)
			slice.AddressType, slice.Endpoints, slice.Ports = "", nil, nil
		}
		return trimmed, err
	default: // a tombstone
		return object, nil
	}
}

// identityOf returns the metadata of an object that requests, and requests for its owner, are made of.
func identityOf(object metav1.Object, label string) metav1.ObjectMeta {
	identity := metav1.ObjectMeta{
		Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(), ResourceVersion: object.GetResourceVersion(),
		DeletionTimestamp: object.GetDeletionTimestamp(),
	}
	if value, ok := object.GetLabels()[label]; ok {
		identity.Labels = map[string]string{label: value}
	}
	if owner := metav1.GetControllerOf(object); owner != nil {
		identity.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	return identity
}

// sizeOf estimates what an object takes in memory.
func sizeOf(object metav1.Object, endpoints []discoveryv1.Endpoint, ports []discoveryv1.EndpointPort) int {
	size := 0
	for _, entries := range []map[string]string{object.GetLabels(), object.GetAnnotations()} {
		for key, value := range entries {
			size += len(key) + len(value) + itemSize
		}
	}
	for _, name := range object.GetFinalizers() {
		size += len(name) + textSize
	}
	for _, owner := range object.GetOwnerReferences() {
		size += owner.Size() + itemSize
	}
	for _, entry := range object.GetManagedFields() {
		size += entry.Size() + itemSize
	}
	for i := range endpoints {
		size += endpoints[i].Size() + itemSize + textSize*len(endpoints[i].Addresses)
	}
	for i := range ports {
		size += ports[i].Size() + itemSize
	}
	return size
}

// readShadow reads a ShadowEndpointSlice, a large one from the API server.
func (r *Reconciler) readShadow(ctx context.Context, key client.ObjectKey) (*offloadingv1beta1.ShadowEndpointSlice, error) {
	shadow := &offloadingv1beta1.ShadowEndpointSlice{}
	err := r.Client.Get(ctx, key, shadow)
	if err == nil && shadow.Spec.Template.AddressType == "" { // which no EndpointSlice may be without
		shadow = &offloadingv1beta1.ShadowEndpointSlice{}
		err = r.APIReader.Get(ctx, key, shadow)
	}
	if err != nil {
		return nil, fmt.Errorf("reading ShadowEndpointSlice %s: %w", key, err)
	}
	return shadow, nil
}

// readSlice reads an EndpointSlice, a large one from the API server.
func (r *Reconciler) readSlice(ctx context.Context, key client.ObjectKey) (*discoveryv1.EndpointSlice, error) {
	slice := &discoveryv1.EndpointSlice{}
	err := r.Client.Get(ctx, key, slice)
	if err == nil && slice.AddressType == "" {
		slice = &discoveryv1.EndpointSlice{}
		err = r.APIReader.Get(ctx, key, slice)
	}
	if err != nil {
		return nil, fmt.Errorf("reading EndpointSlice %s: %w", key, err)
	}
	return slice, nil
}
