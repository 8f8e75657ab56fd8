package main

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/longshore-dev/longshore/hack/demo/rig"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// scaleSizes are the sizes of bench-scale.
type scaleSizes struct {
	virtualNodes, namespaces, pods, configMaps int
	// stream is how many pods are created, 20 a second, beside all that exist.
	stream int
}

var (
	fullScale  = scaleSizes{virtualNodes: 5, namespaces: 500, pods: 10_000, configMaps: 5_000, stream: 600}
	quickScale = scaleSizes{virtualNodes: 3, namespaces: 6, pods: 60, configMaps: 60, stream: 40}
)

const (
	streamPeriod = 50 * time.Millisecond
	// restAfterLoad is how long nothing happens before memory is measured: processes return what only a
	// burst needed ten to twenty seconds later.
	restAfterLoad = 30 * time.Second

	latencyGoal = 1000
	kib         = "KiB"
	kibOfMiB    = 1024
)

// scale is one measurement of an installation of the sizes that the project promises.
type scale struct {
	*bench
	sizes scaleSizes
	// namespaces are those that are offloaded.
	namespaces []string
}

func (b *bench) measureScale(ctx context.Context) error {
	ctx, cancel := withPatience(ctx, longPatience)
	defer cancel()
	s := &scale{bench: b, sizes: fullScale}
	if b.quick {
		s.sizes = quickScale
	}
	return b.inTestbed(ctx, nil, func(ctx context.Context) error {
		for _, step := range []func(context.Context) error{
			s.createVirtualNodes, s.offloadNamespaces, s.sendConfigMaps, s.runPods, s.quietMinute, s.streamPods,
		} {
			if err := step(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// note describes the load.
func (s *scale) note() string {
	return fmt.Sprintf("%d virtual nodes of one provider, %d namespaces, %d pods, %d ConfigMaps; one run",
		s.sizes.virtualNodes, s.sizes.namespaces, s.sizes.pods, s.sizes.configMaps)
}

// createVirtualNodes makes the virtual nodes; one exists.
func (s *scale) createVirtualNodes(ctx context.Context) error {
	s.logf("scale: %d more virtual nodes", s.sizes.virtualNodes-1)
	r, err := rig.Open(s.testbed.rig.Connection())
	if err != nil {
		return err
	}
	took, err := each(ctx, writers, s.sizes.virtualNodes-1, func(ctx context.Context, i int) error {
		return r.CreateNamedVirtualNode(ctx, fmt.Sprintf("%s-%02d", rig.Node, i+1), rig.Capacity("256", "1024Gi", virtualPods), func(string) {})
	})
	s.record.add(figure("scale/virtual-nodes-ready", "s", took, "from ResourceSlices to Nodes that are ready; "+s.note()))
	return err
}

// offloadNamespaces offloads namespaces.
func (s *scale) offloadNamespaces(ctx context.Context) error {
	s.logf("scale: %d namespaces", s.sizes.namespaces)
	for i := range s.sizes.namespaces {
		s.namespaces = append(s.namespaces, fmt.Sprintf("scale-%03d", i))
	}
	took, err := each(ctx, writers, len(s.namespaces), func(ctx context.Context, i int) error {
		return s.testbed.rome.Offload(ctx, s.namespaces[i], offloadingv1beta1.RemotePodOffloadingStrategyType, func(string) {})
	})
	s.record.add(figure("scale/namespaces-offloaded", "s", took, s.note()))
	return err
}

// sendConfigMaps creates ConfigMaps and waits until the provider has them.
func (s *scale) sendConfigMaps(ctx context.Context) error {
	s.logf("scale: %d ConfigMaps", s.sizes.configMaps)
	took, err := s.testbed.sendConfigMaps(ctx, s.sizes.configMaps, writers, func(ctx context.Context, i int) error {
		return createIn(s.testbed.rome.Client, s.namespaces[i%len(s.namespaces)])(ctx, i)
	}, metav1.NamespaceAll)
	s.record.add(figure("scale/configmaps-sent", "s", took, "from the first creation to the last sight in the provider; "+s.note()))
	return err
}

// runPods creates a Deployment in each namespace and waits until all pods run.
func (s *scale) runPods(ctx context.Context) error {
	s.logf("scale: %d pods of Deployments", s.sizes.pods)
	before, err := s.memory(ctx)
	if err != nil {
		return err
	}
	load := make([]*appsv1.Deployment, len(s.namespaces))
	for i, namespace := range s.namespaces {
		share := s.sizes.pods*(i+1)/len(load) - s.sizes.pods*i/len(load)
		load[i] = deployment(namespace, fmt.Sprintf("load-%03d", i), share)
	}
	times, err := s.testbed.offload(ctx, load, metav1.NamespaceAll, metav1.NamespaceAll)
	if err != nil {
		return err
	}
	after, err := s.memory(ctx)
	if err != nil {
		return err
	}
	s.record.add(
		figure("scale/pods-with-shadowpod", "s", times.shadows, s.note()),
		figure("scale/pods-running", "s", times.running, "in the consumer's view; "+s.note()),
		figure("scale/memory-per-pod-anonymous", kib, (after-before)*kibOfMiB/float64(s.sizes.pods),
			"growth of the anonymous memory of the virtual kubelets, garbage included; "+s.note()),
	)
	return nil
}

// memory waits until the load is over and returns the anonymous memory of the virtual kubelets, in MiB.
func (s *scale) memory(ctx context.Context) (float64, error) {
	if err := pause(ctx, s.shorter(restAfterLoad)); err != nil {
		return 0, err
	}
	used, err := s.testbed.usage()
	return used[virtualKubelet].anonymous, err
}

// quietMinute counts requests while nothing happens.
func (s *scale) quietMinute(ctx context.Context) error {
	w, err := s.bench.quietMinute(ctx, "scale")
	if err != nil {
		return err
	}
	s.record.add(
		figure("scale/quiet-requests", "requests", w.requests(func(r request) bool { return r.Ours }), "in a quiet minute, leases and heartbeats included; "+s.note()),
		figure("scale/quiet-requests-beside-leases-and-heartbeats", "requests", w.requests(request.disturbs), s.note()),
		figure("scale/quiet-cpu", "CPU-s", w.cpu(ours), "all processes of Longshore in a quiet minute; "+s.note()),
	)
	return nil
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
	if err := s.testbed.createPods(ctx, s.namespaces, s.sizes.stream, streamPeriod); err != nil {
		return err
	}
	if _, err := local.running.wait(ctx, s.sizes.stream); err != nil {
		return fmt.Errorf("waiting for the pods of the stream to run: %w", err)
	}
	created, missing := latencies(local.bound.all(), shadows.all())
	if missing > 0 {
		return fmt.Errorf("%d pods of the stream were bound without a ShadowPod", missing)
	}
	note := "stream of 20 pods a second beside all that exist; watch arrival times in one process; " + s.note()
	s.record.add(
		figure("scale/scheduled-to-shadowpod-p50", "ms", percentile(created, 0.50), note),
		figure("scale/scheduled-to-shadowpod-p99", "ms", percentile(created, 0.99), note).bounded(valueGoal(latencyGoal)),
	)
	return nil
}
