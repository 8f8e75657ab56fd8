package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

// scaleFlag marks the commands whose results a run of everything else leaves alone.
const scaleFlag = " -scale"

// scaleSizes are the sizes of bench-scale.
type scaleSizes struct {
	virtualNodes, namespaces, pods, configMaps int
	// stream is how many pods are created, 20 a second, beside all that exist; burst is how many, twice,
	// at once while pods that exist become unready, flips of them.
	stream, burst, flips int
}

var (
	fullScale  = scaleSizes{virtualNodes: 5, namespaces: 500, pods: 10_000, configMaps: 5_000, stream: 600, burst: 1_000, flips: 200}
	quickScale = scaleSizes{virtualNodes: 3, namespaces: 6, pods: 60, configMaps: 60, stream: 40, burst: 40, flips: 20}
)

const (
	scalePatience = 45 * time.Minute
	// scaleNodes are the provider's nodes, with podsPerNode pods each.
	scaleNodes   = 8
	streamPeriod = 50 * time.Millisecond
	// restAfterLoad is how long nothing happens before memory is measured: processes return what only a
	// burst needed ten to twenty seconds later.
	restAfterLoad = 30 * time.Second

	latencyGoal = 1000
	kib         = "KiB"
)

// scale measures an installation of the sizes that the project promises.
func (b *bench) scale(ctx context.Context, o options, dir string) (err error) {
	sizes := fullScale
	if b.quick {
		sizes = quickScale
	}
	ctx, cancel := context.WithTimeoutCause(ctx, scalePatience, fmt.Errorf("not done after %s", scalePatience))
	defer cancel()
	b.testbed, err = startTestbed(ctx, testbedOptions{
		longshore: o.longshore, dir: filepath.Join(dir, "clusters"), audit: true, simulatedNodes: scaleNodes, separate: true, logf: b.logf,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.testbed.stop(context.WithoutCancel(ctx))) }()
	s := &scale{bench: b, sizes: sizes}
	for _, step := range []func(context.Context) error{
		s.createVirtualNodes, s.offloadNamespaces, s.sendConfigMaps, s.runPods, s.quietMinute,
		// These add pods, which stay: whatever comes after them has more pods than its note says.
		s.streamPods, s.liftedBurst, s.shippedBurst,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// scale is one measurement of scale.
type scale struct {
	*bench
	sizes scaleSizes
	// namespaces are those that are offloaded.
	namespaces []string
}

// within is a goal of the full sizes; 0 means none.
func (s *scale) within(most float64) goal {
	if s.sizes != fullScale || most == 0 {
		return goal{}
	}
	return valueGoal(most)
}

// note describes the load.
func (s *scale) note() string {
	return fmt.Sprintf("%d virtual nodes of one provider, %d namespaces, %d pods, %d ConfigMaps; one run",
		s.sizes.virtualNodes, s.sizes.namespaces, s.sizes.pods, s.sizes.configMaps)
}

// memory returns what the virtual kubelets hold now.
func (s *scale) memory() (usage, error) {
	all, err := s.testbed.usage()
	if err != nil {
		return usage{}, err
	}
	return all[virtualKubelet], nil
}

// measured waits until the load is over and returns the anonymous memory of the virtual kubelets, in MiB.
func (s *scale) measured(ctx context.Context) (float64, error) {
	if err := pause(ctx, restAfterLoad); err != nil {
		return 0, err
	}
	used, err := s.memory()
	return used.anonymous, err
}

// growth records by how much the memory of the virtual kubelets has grown since before, per object.
func (s *scale) growth(ctx context.Context, name string, before float64, objects int) error {
	after, err := s.measured(ctx)
	if err != nil {
		return err
	}
	const kibOfMiB = 1024
	s.record.add(figure(name+"-anonymous", kib, (after-before)*kibOfMiB/float64(objects),
		"growth of the anonymous memory of the virtual kubelets, garbage included; "+s.note()))
	return nil
}
