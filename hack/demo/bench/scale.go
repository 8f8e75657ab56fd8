package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
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
	fullScale  = scaleSizes{virtualNodes: 50, namespaces: 500, pods: 10_000, configMaps: 5_000, stream: 600, burst: 1_000, flips: 200}
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
	// restarts of the virtual kubelets are measured. Garbage collections of the API servers and the hour
	// spread them by a half. restartSamples are the ConfigMaps and pods that change in each meanwhile.
	restarts, restartSamples = 5, 50

	podMemoryGoal, configMapMemoryGoal = 12, 2
	idleScaleGoal                      = 150
	restartGoal                        = 15
	latencyGoal                        = 1000
	kib                                = "KiB"
)

// scale measures an installation of the sizes that the project promises.
func (b *bench) scale(ctx context.Context, o options, dir string) (err error) {
	sizes := fullScale
	if b.quick {
		sizes = quickScale
	}
	ctx, cancel := context.WithTimeoutCause(ctx, scalePatience, fmt.Errorf("not done after %s", scalePatience))
	defer cancel()
	compared, err := newComparison(o, filepath.Join(dir, "servers"))
	if err != nil {
		return err
	}
	o.longshore = compared.link
	b.testbed, err = startTestbed(ctx, testbedOptions{
		longshore: o.longshore, dir: filepath.Join(dir, "clusters"), audit: true, simulatedNodes: scaleNodes, separate: true, logf: b.logf,
		change: func(cluster string, values map[string]any) {
			setScaleValues(values, o)
			if o.shared || o.profiles != "" {
				profiling(cluster, values) // liveMemory asks there
			}
		},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.testbed.stop(context.WithoutCancel(ctx))) }()
	s := &scale{bench: b, sizes: sizes, shared: o.shared, compared: compared}
	for _, step := range []func(context.Context) error{
		s.createVirtualNodes, s.offloadNamespaces, s.sendConfigMaps, s.runPods, s.quietMinute, s.restarts,
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
	// shared is set if one process serves all virtual nodes.
	shared bool
	// namespaces are those that are offloaded.
	namespaces []string
	compared   *comparison
}

// comparison is the server of a measurement and one that it is compared with. Processes run what link is a link
// to when they start.
type comparison struct{ link, server, other string }

// newComparison returns the servers of the options. dir is the folder of the link.
func newComparison(o options, dir string) (*comparison, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making the folder of the servers: %w", err)
	}
	server, err := filepath.Abs(o.longshore)
	if err != nil {
		return nil, fmt.Errorf("finding -longshore: %w", err)
	}
	t := &comparison{link: filepath.Join(dir, "longshore"), server: server}
	if o.other != "" {
		if t.other, err = filepath.Abs(o.other); err == nil {
			_, err = os.Stat(t.other)
		}
		if err != nil {
			return nil, fmt.Errorf("finding -compare: %w", err)
		}
	}
	return t, relink(t.link, t.server)
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

// state is the memory of the virtual kubelets at one moment.
type state struct {
	usage usage
	// live is the memory that is in use after a garbage collection, in MiB. It is measured with a
	// shared process only.
	live float64
}

// measured waits until the load is over and returns the memory of the virtual kubelets.
func (s *scale) measured(ctx context.Context) (state, error) {
	if err := pause(ctx, restAfterLoad); err != nil {
		return state{}, err
	}
	used, err := s.memory()
	if err != nil || !s.shared {
		return state{usage: used}, err
	}
	live, err := liveMemory(ctx)
	return state{used, live}, err
}

// growth records by how much the memory of the virtual kubelets has grown since before, per object.
func (s *scale) growth(ctx context.Context, name string, before state, objects int, most float64) error {
	after, err := s.measured(ctx)
	if err != nil {
		return err
	}
	if err := s.profile(ctx, "heap?gc=1", path.Base(name)); err != nil {
		return err
	}
	const kibOfMiB = 1024
	each := func(mib float64) float64 { return mib * kibOfMiB / float64(objects) }
	if s.shared {
		s.record.add(figure(name, kib, each(after.live-before.live),
			"growth of the heap and the stacks of the virtual kubelets, after a garbage collection; "+s.note()).bounded(s.within(most)))
	}
	s.record.add(figure(name+"-anonymous", kib, each(after.usage.anonymous-before.usage.anonymous),
		"growth of the anonymous memory of the virtual kubelets, garbage included; "+s.note()))
	return nil
}

// setScaleValues sets the value of the chart with which the virtual nodes of a provider share a process.
func setScaleValues(values map[string]any, o options) {
	if kubelets, ok := values["virtualKubelet"].(map[string]any); ok && o.shared {
		kubelets["shared"] = true
	}
}
