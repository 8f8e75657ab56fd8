package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/longshore-dev/longshore/hack/demo/rig"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

const (
	scalePrefix = "scale-"
	// scaleRequests is how many requests this client has under way.
	scaleRequests = 16
)

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

// createVirtualNodes makes the virtual nodes, one exists, and records what the idle ones cost.
func (s *scale) createVirtualNodes(ctx context.Context) error {
	var names []string
	for i := 1; i < s.sizes.virtualNodes; i++ {
		names = append(names, fmt.Sprintf("%s-%02d", rig.Node, i))
	}
	s.logf("scale: %d more virtual nodes", len(names))
	began := time.Now()
	if err := s.testbed.createVirtualNodes(ctx, names); err != nil {
		return err
	}
	s.record.add(figure("scale/virtual-nodes-ready", "s", time.Since(began).Seconds(), "from ResourceSlices to Nodes that are ready; "+s.note()))
	if err := s.awaitIdle(ctx); err != nil {
		return err
	}
	idle, err := s.memory()
	if err != nil {
		return err
	}
	note := "before the first namespace; " + s.note()
	s.record.add(
		figure("scale/virtual-kubelets-idle", mib, idle.rss, "resident, sum of all processes, "+note),
		figure("scale/virtual-kubelets-idle-anonymous", mib, idle.anonymous, note),
	)
	return nil
}

// offloadNamespaces offloads namespaces, and counts the watches that follow.
func (s *scale) offloadNamespaces(ctx context.Context) error {
	s.logf("scale: %d namespaces", s.sizes.namespaces)
	began := time.Now()
	group, offloading := errgroup.WithContext(ctx)
	group.SetLimit(scaleRequests)
	for i := range s.sizes.namespaces {
		name := fmt.Sprintf("%s%03d", scalePrefix, i)
		s.namespaces = append(s.namespaces, name)
		group.Go(func() error {
			return s.testbed.rome.Offload(offloading, name, offloadingv1beta1.RemotePodOffloadingStrategyType, func(string) {})
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("offloading namespaces: %w", err)
	}
	s.record.add(figure("scale/namespaces-offloaded", "s", time.Since(began).Seconds(), s.note()))
	if err := pause(ctx, restAfterLoad); err != nil {
		return err
	}
	offloaded, err := s.memory()
	if err != nil {
		return err
	}
	s.record.add(figure("scale/virtual-kubelets-offloaded-anonymous", mib, offloaded.anonymous, "with all namespaces offloaded, before the first object; "+s.note()))
	for _, side := range []*side{s.testbed.rome, s.testbed.milan} {
		watches, err := side.watches(ctx)
		if err != nil {
			return err
		}
		s.record.add(figure("scale/watches@"+side.Name, "watches", watches, "all that the API server serves; "+s.note()))
	}
	return nil
}

// watches returns how many watches the API server serves.
func (s *side) watches(ctx context.Context) (float64, error) {
	raw, err := s.client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, fmt.Errorf("reading the metrics of the API server of %q: %w", s.Name, err)
	}
	return sumWatches(raw)
}

// sumWatches adds up the watches in the metrics of an API server.
func sumWatches(metrics []byte) (float64, error) {
	total := 0.0
	lines := bufio.NewScanner(bytes.NewReader(metrics))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if !strings.HasPrefix(line, "apiserver_longrunning_requests{") || !strings.Contains(line, `verb="WATCH"`) {
			continue
		}
		n, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil {
			return 0, fmt.Errorf("reading the line %q: %w", line, err)
		}
		total += n
	}
	if err := lines.Err(); err != nil {
		return 0, fmt.Errorf("reading the metrics of an API server: %w", err)
	}
	return total, nil
}

// sendConfigMaps creates ConfigMaps of 512 bytes and waits until the provider has them.
func (s *scale) sendConfigMaps(ctx context.Context) error {
	s.logf("scale: %d ConfigMaps", s.sizes.configMaps)
	before, err := s.measured(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	seen, err := s.testbed.milan.watchConfigMaps(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	group, creating := errgroup.WithContext(ctx)
	group.SetLimit(scaleRequests)
	data := map[string]string{"text": strings.Repeat("x", 512)}
	for i := range s.sizes.configMaps {
		namespace := s.namespaces[i%len(s.namespaces)]
		group.Go(func() error {
			config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s%05d", scalePrefix, i)}, Data: data}
			_, err := s.testbed.rome.client.CoreV1().ConfigMaps(namespace).Create(creating, config, metav1.CreateOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("creating ConfigMaps: %w", err)
	}
	last, err := seen.wait(ctx, s.sizes.configMaps)
	if err != nil {
		return fmt.Errorf("waiting for ConfigMaps in the provider: %w", err)
	}
	s.record.add(figure("scale/configmaps-sent", "s", last.Sub(began).Seconds(), "from the first creation to the last sight in the provider; "+s.note()))
	return s.growth(ctx, "scale/memory-per-configmap", before, s.sizes.configMaps)
}

// watchConfigMaps sees the ConfigMaps of this benchmark.
func (s *side) watchConfigMaps(ctx context.Context) (*sightings, error) {
	seen := newSightings()
	resource := s.metadata.Resource(configMaps)
	list, err := resource.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("listing the ConfigMaps of %q: %w", s.Name, err)
	}
	err = s.follow(ctx, list.ResourceVersion, resource.Watch, func(event watch.Event, at time.Time) {
		object, ok := event.Object.(*metav1.PartialObjectMetadata)
		if ok && event.Type != watch.Deleted && strings.HasPrefix(object.Name, scalePrefix) {
			seen.see(object.Name, at)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("watching the ConfigMaps of %q: %w", s.Name, err)
	}
	return seen, nil
}

// loadName is the prefix of the Deployments whose pods are the load of all measurements.
const loadName = "load"

// runPods creates a Deployment in each namespace and waits until all pods run.
func (s *scale) runPods(ctx context.Context) error {
	before, err := s.measured(ctx)
	if err != nil {
		return err
	}
	times, err := s.offload(ctx, loadName, s.sizes.pods, s.namespaces)
	if err != nil {
		return err
	}
	s.record.add(
		figure("scale/pods-with-shadowpod", "s", times.shadows, s.note()),
		figure("scale/pods-running", "s", times.running, "in the consumer's view; "+s.note()),
	)
	return s.growth(ctx, "scale/memory-per-pod", before, s.sizes.pods)
}

// offload creates Deployments in namespaces, which share out the pods, and waits until all run.
func (s *scale) offload(ctx context.Context, name string, pods int, namespaces []string) (burstTimes, error) {
	s.logf("scale: %d pods of Deployments in %d namespaces", pods, len(namespaces))
	watching, stop := context.WithCancel(ctx)
	defer stop()
	local, err := s.testbed.rome.watchPods(watching, metav1.NamespaceAll)
	if err != nil {
		return burstTimes{}, err
	}
	shadows, err := s.testbed.milan.watchShadowPods(watching, metav1.NamespaceAll)
	if err != nil {
		return burstTimes{}, err
	}
	all := make([]*appsv1.Deployment, 0, len(namespaces))
	for i, namespace := range namespaces {
		share := pods*(i+1)/len(namespaces) - pods*i/len(namespaces)
		all = append(all, deployment(namespace, fmt.Sprintf("%s-%03d", name, i), share))
	}
	began := time.Now()
	if err := s.testbed.createDeployments(watching, all); err != nil {
		return burstTimes{}, err
	}
	return waitBurst(watching, began, pods, local.bound, shadows, local.running)
}

// streamPods creates 20 pods a second beside all that exist.
func (s *scale) streamPods(ctx context.Context) error {
	s.logf("scale: a stream of %d pods, 20 a second", s.sizes.stream)
	watching, stop := context.WithCancel(ctx)
	defer stop()
	local, err := s.testbed.rome.watchPods(watching, metav1.NamespaceAll)
	if err != nil {
		return err
	}
	shadows, err := s.testbed.milan.watchShadowPods(watching, metav1.NamespaceAll)
	if err != nil {
		return err
	}
	ticker := time.NewTicker(streamPeriod)
	defer ticker.Stop()
	for i := range s.sizes.stream {
		namespace := s.namespaces[i%len(s.namespaces)]
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%04d", streamPrefix, i), Namespace: namespace}, Spec: podSpec()}
		if _, err := s.testbed.rome.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating pod %d of the stream: %w", i, err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if _, err := local.running.wait(ctx, s.sizes.stream); err != nil {
		return fmt.Errorf("waiting for the pods of the stream to run: %w", err)
	}
	created, missing := latencies(local.bound.all(), shadows.all())
	if missing > 0 {
		return fmt.Errorf("%d pods of the stream were bound without a ShadowPod", missing)
	}
	s.latency("scale/scheduled-to-shadowpod", created, latencyGoal, "stream of 20 pods a second beside all that exist")
	return nil
}

// latency records the median and the 99th percentile of times in milliseconds. The goal is for the latter; 0
// means none.
func (s *scale) latency(name string, values []float64, most float64, note string) {
	note += "; watch arrival times in one process; " + s.note()
	s.record.add(
		figure(name+"-p50", "ms", percentile(values, 0.50), note),
		figure(name+"-p99", "ms", percentile(values, 0.99), note).bounded(s.within(most)),
	)
}

// quietMinute counts requests while nothing happens.
func (s *scale) quietMinute(ctx context.Context) error {
	minute, settle, silence := quietMinute, quietSettle, quietSilence
	if s.quick {
		minute, settle, silence = minute/quickShare, settle/quickShare, silence/quickShare
	}
	s.logf("scale: quiet minute")
	if err := s.silence(ctx, settle, silence); err != nil {
		return err
	}
	window, err := s.open()
	if err != nil {
		return err
	}
	if err := pause(ctx, minute); err != nil {
		return err
	}
	after, err := s.testbed.usage()
	if err != nil {
		return err
	}
	asked, err := s.testbed.audit.since()
	if err != nil {
		return err
	}
	s.record.add(
		figure("scale/quiet-requests", "requests", float64(asked.sum(func(r request) bool { return r.Ours })), "in a quiet minute, leases and heartbeats included; "+s.note()),
		figure("scale/quiet-requests-beside-leases-and-heartbeats", "requests", float64(asked.sum(func(r request) bool { return r.Ours && !r.idle() })), s.note()),
		figure("scale/quiet-cpu", "CPU-s", cpuBetween(window.before, after, ours), "all processes of Longshore in a quiet minute; "+s.note()),
	)
	return nil
}

// killVirtualKubelets kills the virtual kubelets that this process has started.
func killVirtualKubelets() error {
	all, err := list("/proc", syscall.Getpid())
	if err != nil {
		return err
	}
	killed := 0
	for _, p := range all {
		if p.name != virtualKubelet {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(p.dir))
		if err == nil {
			err = syscall.Kill(pid, syscall.SIGKILL)
		}
		if err != nil {
			return fmt.Errorf("killing the virtual kubelet %s: %w", filepath.Base(p.dir), err)
		}
		killed++
	}
	if killed == 0 {
		return fmt.Errorf("no process %s to kill", virtualKubelet)
	}
	return nil
}
