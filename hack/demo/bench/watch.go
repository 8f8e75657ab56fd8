package main

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

var (
	shadowPods  = offloadingv1beta1.GroupVersion.WithResource("shadowpods")
	podResource = corev1.SchemeGroupVersion.WithResource("pods")
)

// sightings are the first moments at which something was seen of each object, by name.
type sightings struct {
	mu      sync.Mutex
	at      map[string]time.Time
	last    time.Time
	changed chan struct{}
}

func newSightings() *sightings {
	return &sightings{at: map[string]time.Time{}, changed: make(chan struct{})}
}

func (s *sightings) see(name string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.at[name]; known {
		return
	}
	s.at[name], s.last = at, at
	close(s.changed)
	s.changed = make(chan struct{})
}

// all returns a copy.
func (s *sightings) all() map[string]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.at)
}

// wait returns when n objects were seen, with the moment of the last.
func (s *sightings) wait(ctx context.Context, n int) (time.Time, error) {
	for {
		s.mu.Lock()
		have, last, changed := len(s.at), s.last, s.changed
		s.mu.Unlock()
		if have >= n {
			return last, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("%d of %d: %w", have, n, context.Cause(ctx))
		}
	}
}

// podSightings are what is seen of the pods of a namespace.
type podSightings struct {
	bound, running *sightings
}

// watchPods sees pods from now on, until the context ends.
func (s *side) watchPods(ctx context.Context, namespace string) (*podSightings, error) {
	seen := &podSightings{bound: newSightings(), running: newSightings()}
	return seen, follow(ctx, s.client.CoreV1().Pods(namespace), func(event watch.Event, at time.Time) {
		pod, ok := event.Object.(*corev1.Pod)
		if !ok || event.Type == watch.Deleted {
			return
		}
		if pod.Spec.NodeName != "" {
			seen.bound.see(pod.Name, at)
		}
		if pod.Status.Phase == corev1.PodRunning {
			seen.running.see(pod.Name, at)
		}
	})
}

// watchShadowPods sees ShadowPods, by their metadata.
func (s *side) watchShadowPods(ctx context.Context, namespace string) (*sightings, error) {
	return s.watchMetadata(ctx, shadowPods, namespace, "")
}

// watchMetadata sees objects whose names begin with a prefix, by their metadata, from now on until the context ends.
func (s *side) watchMetadata(ctx context.Context, resource schema.GroupVersionResource, namespace, prefix string) (*sightings, error) {
	seen := newSightings()
	return seen, follow(ctx, s.metadata.Resource(resource).Namespace(namespace), func(event watch.Event, at time.Time) {
		object, ok := event.Object.(*metav1.PartialObjectMetadata)
		if ok && event.Type != watch.Deleted && strings.HasPrefix(object.Name, prefix) {
			seen.see(object.Name, at)
		}
	})
}

// watched is a client of a resource.
type watched[L metav1.ListInterface] interface {
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// follow calls see for each event from now on; a watch that ends is begun again where it ended.
func follow[L metav1.ListInterface](ctx context.Context, resource watched[L], see func(watch.Event, time.Time)) error {
	list, err := resource.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return fmt.Errorf("listing what is watched: %w", err)
	}
	watcher, err := toolswatch.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), &cache.ListWatch{WatchFuncWithContext: resource.Watch})
	if err != nil {
		return fmt.Errorf("beginning to watch: %w", err)
	}
	go func() {
		for event := range watcher.ResultChan() {
			see(event, time.Now())
		}
	}()
	return nil
}
