package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/longshore-dev/longshore/hack/demo/rig"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

const readingNote = "baseline: informers of a plain client that read the kinds of the virtual kubelets in both clusters, a watch for each kind, half a minute later"

// kindsRead returns the kinds that virtual kubelets read in a cluster.
func kindsRead(cluster string) []schema.GroupVersionKind {
	kinds := []schema.GroupVersionKind{networkingv1.SchemeGroupVersion.WithKind("Ingress")}
	for _, kind := range []string{"Pod", "ConfigMap", "Secret", "Service"} {
		kinds = append(kinds, corev1.SchemeGroupVersion.WithKind(kind))
	}
	if cluster != rig.Provider {
		return append(kinds, discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"))
	}
	return append(kinds, corev1.SchemeGroupVersion.WithKind("Event"), corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"),
		offloadingv1beta1.GroupVersion.WithKind("ShadowPod"), offloadingv1beta1.GroupVersion.WithKind("ShadowEndpointSlice"))
}

// reading returns how many seconds the informers of a plain client need to read what virtual kubelets read
// when they start. It decides and writes nothing.
func (s *scale) reading(ctx context.Context) (float64, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	began := time.Now()
	group, reading := errgroup.WithContext(ctx)
	for _, side := range []*side{s.testbed.rome, s.testbed.milan} {
		group.Go(func() error {
			if err := side.readAll(reading); err != nil {
				return fmt.Errorf("reading cluster %q with a plain client: %w", side.Name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	return time.Since(began).Seconds(), nil
}

// readAll returns when informers have all objects of the kinds.
func (s *side) readAll(ctx context.Context) error {
	objects, err := cache.New(s.Config, cache.Options{Scheme: s.Scheme(), DefaultTransform: cache.TransformStripManagedFields()})
	if err != nil {
		return err
	}
	for _, kind := range kindsRead(s.Name) {
		if _, err := objects.GetInformerForKind(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			return err
		}
	}
	go func() { _ = objects.Start(ctx) }() // It fails only if it is started twice.
	if !objects.WaitForCacheSync(ctx) {
		return context.Cause(ctx)
	}
	return nil
}
