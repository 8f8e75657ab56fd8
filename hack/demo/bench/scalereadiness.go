package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// benchReason is why pods are not ready that the benchmark makes unready.
const benchReason = "Bench"

// burstPods creates many pods at once while pods that exist become unready.
func (s *scale) burstPods(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		_, err := s.offload(ctx, "burst", s.sizes.burst, s.namespaces[:min(20, len(s.namespaces))])
		return err
	})
	group.Go(func() error { return s.flipReadiness(ctx, s.sizes.flips, "load-", flipPeriod) })
	group.Go(func() error { return s.patchPlainStatus(ctx, s.sizes.flips, flipPeriod) })
	return group.Wait()
}

// patchPlainStatus patches the status of a pod that is not offloaded count times and records how long
// the consumer's API server needs. Longshore sends one such request for each change that it reflects.
func (s *scale) patchPlainStatus(ctx context.Context, count int, period time.Duration) error {
	pods := s.testbed.rome.client.CoreV1().Pods(metav1.NamespaceDefault)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "plain-"}, Spec: podSpec()}
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/stays-pending"}}
	pod, err := pods.Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating a pod that is not offloaded: %w", err)
	}
	var needed []float64
	for i := range count {
		began := time.Now()
		if _, err := pods.Patch(ctx, pod.Name, types.StrategicMergePatchType, unready(fmt.Sprintf("Bench%d", i)), metav1.PatchOptions{}, "status"); err != nil {
			return fmt.Errorf("patching the status of pod %s: %w", pod.Name, err)
		}
		needed = append(needed, float64(time.Since(began))/float64(time.Millisecond))
		if err := pause(ctx, period); err != nil {
			return err
		}
	}
	note := fmt.Sprintf("status patches of a pod that is not offloaded while %d pods are created; from the request to the answer of the consumer's API server; %s", s.sizes.burst, s.note())
	s.record.add(
		figure("scale/plain-status-patch-during-burst-p50", "ms", percentile(needed, 0.50), note),
		figure("scale/plain-status-patch-during-burst-p99", "ms", percentile(needed, 0.99), note),
	)
	if err := pods.Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("deleting pod %s: %w", pod.Name, err)
	}
	return nil
}

// unready is a strategic merge patch of a pod's status.
func unready(reason string) []byte {
	return fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":"False","reason":%q,"lastTransitionTime":%q}]}}`,
		reason, time.Now().UTC().Format(time.RFC3339))
}

// flipReadiness makes remote pods unready, one after the other, and records how long the provider
// needs to write that, and how long Longshore needs to show it in the consumer.
func (s *scale) flipReadiness(ctx context.Context, count int, prefix string, period time.Duration) error {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	local, err := s.testbed.rome.watchUnready(watching)
	if err != nil {
		return err
	}
	remote, err := s.testbed.milan.watchUnready(watching)
	if err != nil {
		return err
	}
	sent := newSightings()
	if err := s.makeUnready(ctx, count, prefix, period, sent.see); err != nil {
		return err
	}
	if _, err := local.wait(ctx, count); err != nil {
		return fmt.Errorf("waiting for unready pods in the consumer: %w", err)
	}
	if _, err := remote.wait(ctx, count); err != nil {
		return fmt.Errorf("waiting for unready pods in the provider: %w", err)
	}
	note := fmt.Sprintf("remote pods that become unready while %d pods are created", s.sizes.burst)
	written, _ := latencies(sent.all(), remote.all())
	reflected, _ := latencies(remote.all(), local.all())
	s.record.add(
		figure("scale/readiness-written-during-burst-p50", "ms", percentile(written, 0.50), note+"; from the request to its watch event in the provider; "+s.note()),
		figure("scale/readiness-written-during-burst-p99", "ms", percentile(written, 0.99), note+"; from the request to its watch event in the provider; "+s.note()),
	)
	s.latency("scale/readiness-during-burst", reflected, note)
	return nil
}

// makeUnready makes random ready remote pods unready.
func (s *scale) makeUnready(ctx context.Context, count int, prefix string, period time.Duration, done func(string, time.Time)) error {
	pods, err := s.testbed.milan.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing remote pods: %w", err)
	}
	rand.Shuffle(len(pods.Items), func(i, j int) { pods.Items[i], pods.Items[j] = pods.Items[j], pods.Items[i] })
	for i := range pods.Items {
		pod := &pods.Items[i]
		if count == 0 {
			return nil
		}
		if !strings.HasPrefix(pod.Name, prefix) || !podReady(pod) {
			continue
		}
		count--
		began := time.Now()
		_, err := s.testbed.milan.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, unready(benchReason), metav1.PatchOptions{}, "status")
		if err != nil {
			return fmt.Errorf("making remote pod %s/%s unready: %w", pod.Namespace, pod.Name, err)
		}
		done(pod.Name, began)
		if err := pause(ctx, period); err != nil {
			return err
		}
	}
	if count > 0 {
		return fmt.Errorf("%d ready remote pods too few with the prefix %q", count, prefix)
	}
	return nil
}

// watchUnready sees running pods that are not ready because of this benchmark.
func (s *side) watchUnready(ctx context.Context) (*sightings, error) {
	seen, pods := newSightings(), s.client.CoreV1().Pods(metav1.NamespaceAll)
	list, err := pods.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("listing the pods of %q: %w", s.Name, err)
	}
	err = s.follow(ctx, list.ResourceVersion, pods.Watch, func(event watch.Event, at time.Time) {
		pod, ok := event.Object.(*corev1.Pod)
		if !ok || event.Type == watch.Deleted {
			return
		}
		for i := range pod.Status.Conditions {
			if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse && c.Reason == benchReason {
				seen.see(pod.Name, at)
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("watching the pods of %q: %w", s.Name, err)
	}
	return seen, nil
}
