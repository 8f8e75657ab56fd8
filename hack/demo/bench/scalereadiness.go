package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/longshore-dev/longshore/hack/demo/rig"
)

// burstLoad is a burst of pods of Deployments.
type burstLoad struct {
	// name is the prefix of the Deployments' names, and part of the names of the results.
	name string
	// reason is why pods are not ready that the benchmark makes unready meanwhile.
	reason string
	// period is the time between two such pods.
	period time.Duration
	// clients says how the clients of the controller managers and the schedulers are limited.
	clients string
	// goal is for the time until the consumer shows that a pod is not ready, in milliseconds; 0 means none.
	goal float64
}

var (
	liftedBurst = burstLoad{
		name: "lifted-burst", reason: "BenchLiftedBurst", period: 50 * time.Millisecond,
		clients: "as fast as they can, because the client limits of controller managers and schedulers are lifted",
	}
	shippedBurst = burstLoad{
		name: "burst", reason: "BenchBurst", period: 200 * time.Millisecond, goal: latencyGoal,
		clients: "with the client limits that controller managers and schedulers have by default",
	}
)

// shippedManagerArgs are the defaults of the controller manager, which the test plane lifts. The default of
// the scheduler, 50 a second, holds without arguments.
func shippedManagerArgs() []string { return []string{"--kube-api-qps=20", "--kube-api-burst=30"} }

// liftedBurst creates pods as fast as the machine allows.
func (s *scale) liftedBurst(ctx context.Context) error { return s.burstPods(ctx, liftedBurst) }

// shippedBurst creates pods as fast as the controllers of a cluster do that has the limits of Kubernetes.
func (s *scale) shippedBurst(ctx context.Context) error {
	s.logf("scale: controller managers and schedulers restart with the client limits of Kubernetes")
	for _, side := range []*rig.Side{s.testbed.rig.Rome, s.testbed.rig.Milan} {
		if err := side.Plane.RestartControllers(ctx, shippedManagerArgs(), nil); err != nil {
			return err
		}
	}
	// A pod that runs shows that both have read what exists.
	if _, err := s.offload(ctx, "restarted", 1, s.namespaces[:1]); err != nil {
		return fmt.Errorf("after the restart of the controllers: %w", err)
	}
	if err := pause(ctx, restAfterLoad); err != nil {
		return err
	}
	return s.burstPods(ctx, shippedBurst)
}

// burstPods creates many pods at once while pods that exist become unready.
func (s *scale) burstPods(ctx context.Context, load burstLoad) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		took, err := s.offload(ctx, load.name, s.sizes.burst, s.namespaces[:min(20, len(s.namespaces))])
		if err == nil {
			s.record.add(figure("scale/"+load.name+"-running", "s", took.running, fmt.Sprintf("%d pods, %s; in the consumer's view; %s", s.sizes.burst, load.clients, s.note())))
		}
		return err
	})
	group.Go(func() error { return s.flipReadiness(ctx, load) })
	group.Go(func() error { return s.patchPlainStatus(ctx, load) })
	return group.Wait()
}

// patchPlainStatus patches the status of a pod that is not offloaded again and again and records how long
// the consumer's API server needs. Longshore sends one such request for each change that it reflects.
func (s *scale) patchPlainStatus(ctx context.Context, load burstLoad) error {
	pods := s.testbed.rome.client.CoreV1().Pods(metav1.NamespaceDefault)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "plain-"}, Spec: podSpec()}
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/stays-pending"}}
	pod, err := pods.Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating a pod that is not offloaded: %w", err)
	}
	var needed []float64
	for i := range s.sizes.flips {
		began := time.Now()
		if _, err := pods.Patch(ctx, pod.Name, types.StrategicMergePatchType, unready(fmt.Sprintf("Bench%d", i)), metav1.PatchOptions{}, "status"); err != nil {
			return fmt.Errorf("patching the status of pod %s: %w", pod.Name, err)
		}
		needed = append(needed, float64(time.Since(began))/float64(time.Millisecond))
		if err := pause(ctx, load.period); err != nil {
			return err
		}
	}
	note := fmt.Sprintf("status patches of a pod that is not offloaded while %d pods are created, %s; from the request to the answer of the consumer's API server; %s", s.sizes.burst, load.clients, s.note())
	s.record.add(
		figure("scale/plain-status-patch-during-"+load.name+"-p50", "ms", percentile(needed, 0.50), note),
		figure("scale/plain-status-patch-during-"+load.name+"-p99", "ms", percentile(needed, 0.99), note),
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
func (s *scale) flipReadiness(ctx context.Context, load burstLoad) error {
	count := s.sizes.flips
	watching, stop := context.WithCancel(ctx)
	defer stop()
	local, err := s.testbed.rome.watchUnready(watching, load.reason)
	if err != nil {
		return err
	}
	remote, err := s.testbed.milan.watchUnready(watching, load.reason)
	if err != nil {
		return err
	}
	sent := newSightings()
	pods, err := s.readyPods(ctx, count)
	if err != nil {
		return err
	}
	if err := s.makeUnready(ctx, pods, load.reason, load.period, sent.see); err != nil {
		return err
	}
	if _, err := local.wait(ctx, count); err != nil {
		return fmt.Errorf("waiting for unready pods in the consumer: %w", err)
	}
	if _, err := remote.wait(ctx, count); err != nil {
		return fmt.Errorf("waiting for unready pods in the provider: %w", err)
	}
	note := fmt.Sprintf("remote pods that become unready while %d pods are created, %s", s.sizes.burst, load.clients)
	written, _ := latencies(sent.all(), remote.all())
	reflected, _ := latencies(remote.all(), local.all())
	s.record.add(
		figure("scale/readiness-written-during-"+load.name+"-p50", "ms", percentile(written, 0.50), note+"; from the request to its watch event in the provider; "+s.note()),
		figure("scale/readiness-written-during-"+load.name+"-p99", "ms", percentile(written, 0.99), note+"; from the request to its watch event in the provider; "+s.note()),
	)
	s.latency("scale/readiness-during-"+load.name, reflected, load.goal, note)
	return nil
}

// readyPods returns random remote pods of the load that are ready.
func (s *scale) readyPods(ctx context.Context, count int) ([]corev1.Pod, error) {
	pods, err := s.testbed.milan.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing remote pods: %w", err)
	}
	ready := slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return !strings.HasPrefix(pod.Name, loadName+"-") || !podReady(&pod) })
	if len(ready) < count {
		return nil, fmt.Errorf("%d remote pods of the load are ready, %d are needed", len(ready), count)
	}
	rand.Shuffle(len(ready), func(i, j int) { ready[i], ready[j] = ready[j], ready[i] })
	return ready[:count], nil
}

// makeUnready makes remote pods unready for a reason, one after the other with a pause of period.
func (s *scale) makeUnready(ctx context.Context, pods []corev1.Pod, reason string, period time.Duration, done func(string, time.Time)) error {
	for i := range pods {
		pod := &pods[i]
		began := time.Now()
		_, err := s.testbed.milan.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, unready(reason), metav1.PatchOptions{}, "status")
		if err != nil {
			return fmt.Errorf("making remote pod %s/%s unready: %w", pod.Namespace, pod.Name, err)
		}
		done(pod.Name, began)
		if err := pause(ctx, period); err != nil {
			return err
		}
	}
	return nil
}

// watchUnready sees pods that are not ready for a reason of this benchmark.
func (s *side) watchUnready(ctx context.Context, reason string) (*sightings, error) {
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
			if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse && c.Reason == reason {
				seen.see(pod.Name, at)
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("watching the pods of %q: %w", s.Name, err)
	}
	return seen, nil
}
