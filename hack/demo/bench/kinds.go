package main

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

const (
	// kindsEvery is the time between two objects: 100 a second.
	kindsEvery = 10 * time.Millisecond
	// kindsObjects of each kind are created.
	kindsObjects, quickKindsObjects = 500, 100
	kindsPrefix                     = "kind-"
)

// mirroredKind is a kind whose objects the virtual kubelet mirrors.
type mirroredKind struct {
	name string
	// local and remote are the resources that are watched.
	local, remote schema.GroupVersionResource
	build         func(meta metav1.ObjectMeta) client.Object
}

// mirroredKinds are the kinds that are created without a pod.
func mirroredKinds() []mirroredKind {
	core := corev1.SchemeGroupVersion.WithResource
	ingresses, slices := networkingv1.SchemeGroupVersion.WithResource("ingresses"), discoveryv1.SchemeGroupVersion.WithResource("endpointslices")
	data := map[string][]byte{"text": make([]byte, 512)}
	return []mirroredKind{
		{"configmap", core("configmaps"), core("configmaps"), func(meta metav1.ObjectMeta) client.Object {
			return &corev1.ConfigMap{ObjectMeta: meta, BinaryData: data}
		}},
		{"secret", core("secrets"), core("secrets"), func(meta metav1.ObjectMeta) client.Object {
			return &corev1.Secret{ObjectMeta: meta, Data: data}
		}},
		{"service", core("services"), core("services"), func(meta metav1.ObjectMeta) client.Object {
			return &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Port: 80}}}}
		}},
		{"ingress", ingresses, ingresses, func(meta metav1.ObjectMeta) client.Object {
			backend := networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80}}
			return &networkingv1.Ingress{ObjectMeta: meta, Spec: networkingv1.IngressSpec{DefaultBackend: &networkingv1.IngressBackend{Service: &backend}}}
		}},
		{"endpointslice", slices, offloadingv1beta1.GroupVersion.WithResource("shadowendpointslices"), func(meta metav1.ObjectMeta) client.Object {
			return &discoveryv1.EndpointSlice{
				ObjectMeta: meta, AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: ptr.To("web"), Port: ptr.To[int32](80)}},
				Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.1.0.1"}}},
			}
		}},
	}
}

// kinds measures how long an object of each mirrored kind takes to the provider, at 100 a second.
func (b *bench) kinds(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stepPatience, fmt.Errorf("not done after %s", stepPatience))
	defer cancel()
	objects := kindsObjects
	if b.quick {
		objects = quickKindsObjects
	}
	for _, kind := range mirroredKinds() {
		b.logf("kinds: %d objects of kind %s, 100 a second", objects, kind.name)
		if err := b.mirror(ctx, kind, objects); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) mirror(ctx context.Context, kind mirroredKind, objects int) error {
	w := b.testbed
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	local, err := w.rome.watchMetadata(watching, kind.local, offloaded)
	if err != nil {
		return err
	}
	remote, err := w.milan.watchMetadata(watching, kind.remote, w.remote)
	if err != nil {
		return err
	}
	group, creating := errgroup.WithContext(ctx)
	group.SetLimit(scaleRequests)
	for i := range objects {
		group.Go(func() error {
			return w.rome.Create(creating, kind.build(numbered(offloaded, i)))
		})
		if err := pause(ctx, kindsEvery); err != nil {
			return err
		}
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("creating objects of kind %s: %w", kind.name, err)
	}
	for _, seen := range []*sightings{local, remote} {
		if _, err := seen.wait(ctx, objects); err != nil {
			return fmt.Errorf("waiting for objects of kind %s: %w", kind.name, err)
		}
	}
	values, missing := latencies(local.all(), remote.all())
	if missing > 0 {
		return fmt.Errorf("%d objects of kind %s did not reach milan", missing, kind.name)
	}
	note := fmt.Sprintf("%d objects, 100 a second; watch arrival times of both clusters in one process", objects)
	for _, p := range []float64{0.50, 0.99} {
		name := fmt.Sprintf("kinds/%s-p%d", kind.name, int(math.Round(100*p)))
		b.record.add(figure(name, "ms", percentile(values, p), note))
	}
	return w.rome.removeAll(ctx, kind, objects)
}

// removeAll deletes what mirror has created.
func (s *side) removeAll(ctx context.Context, kind mirroredKind, objects int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(scaleRequests)
	for i := range objects {
		group.Go(func() error {
			return s.Delete(ctx, kind.build(numbered(offloaded, i)))
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("deleting objects of kind %s: %w", kind.name, err)
	}
	return nil
}

// watchMetadata sees objects of this measure, by their metadata, from now on until the context ends.
func (s *side) watchMetadata(ctx context.Context, kind schema.GroupVersionResource, namespace string) (*sightings, error) {
	seen := newSightings()
	resource := s.metadata.Resource(kind).Namespace(namespace)
	list, err := resource.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("listing the %s of %q in %q: %w", kind.Resource, namespace, s.Name, err)
	}
	err = s.follow(ctx, list.ResourceVersion, resource.Watch, func(event watch.Event, at time.Time) {
		object, ok := event.Object.(*metav1.PartialObjectMetadata)
		if ok && event.Type == watch.Added && isNumbered(object.Name) {
			seen.see(object.Name, at)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("watching the %s of %q in %q: %w", kind.Resource, namespace, s.Name, err)
	}
	return seen, nil
}

// isNumbered reports whether an object is of this measure.
func isNumbered(name string) bool {
	return len(name) == len(kindsPrefix)+5 && strings.HasPrefix(name, kindsPrefix)
}
