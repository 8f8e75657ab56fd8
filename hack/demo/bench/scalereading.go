package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/hack/demo/rig"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

const readingNote = "baseline: a plain client reads the same kinds in both clusters, one watch each in all namespaces, half a minute later"

// readByCluster are the kinds that virtual kubelets read in each cluster.
var readByCluster = map[string][]client.Object{
	rig.Consumer: {&corev1.Pod{}, &corev1.ConfigMap{}, &corev1.Secret{}, &corev1.Service{}, &corev1.ServiceAccount{}, &discoveryv1.EndpointSlice{}},
	rig.Provider: {
		&corev1.Pod{}, &offloadingv1beta1.ShadowPod{}, &corev1.ConfigMap{}, &corev1.Secret{}, &corev1.Service{}, &corev1.Event{},
		&offloadingv1beta1.ShadowEndpointSlice{},
	},
}

// reading returns how many seconds the informers of a plain client need for what virtual kubelets read when
// they start. It decides and writes nothing: a restart on this machine, at this hour, cannot be shorter than
// that by much.
func (s *scale) reading(ctx context.Context) (float64, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	began := time.Now()
	group, reading := errgroup.WithContext(ctx)
	for _, side := range []*side{s.testbed.rome, s.testbed.milan} {
		objects, err := cache.New(side.Config, cache.Options{Scheme: side.Scheme(), DefaultTransform: cache.TransformStripManagedFields()})
		if err != nil {
			return 0, fmt.Errorf("reading cluster %q with a plain client: %w", side.Name, err)
		}
		for _, kind := range readByCluster[side.Name] {
			if _, err := objects.GetInformer(reading, kind, cache.BlockUntilSynced(false)); err != nil {
				return 0, fmt.Errorf("reading cluster %q with a plain client: %w", side.Name, err)
			}
		}
		go func() { _ = objects.Start(ctx) }() // It fails only if it is started twice.
		group.Go(func() error {
			if !objects.WaitForCacheSync(reading) {
				return errors.Join(fmt.Errorf("a plain client did not read cluster %q", side.Name), context.Cause(reading))
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	return time.Since(began).Seconds(), nil
}
