package main

import (
	"context"
	"fmt"
	"time"
)

// The reference system's milliseconds for the slow stream, on this class of machine (the
// project's issue "A pod runs on another cluster, decided by wasm", section "Speed and memory").
const (
	referenceShadowP50, referenceShadowP99   = 20, 47
	referenceRunningP50, referenceRunningP99 = 39, 76

	streamGoal   = 0.5
	streamPrefix = "stream"
	streamEvery  = 200 * time.Millisecond

	streamPods, quickStreamPods = 200, 25
)

// stream measures how long one pod waits for Longshore when there is little to do.
func (b *bench) stream(ctx context.Context) error {
	ctx, cancel := withPatience(ctx, stepPatience)
	defer cancel()
	w, pods := b.testbed, b.size(streamPods, quickStreamPods)
	b.logf("stream: %d pods, 5 a second", pods)
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	local, err := w.rome.watchPods(watching, offloaded)
	if err != nil {
		return err
	}
	shadow, err := w.milan.watchShadowPods(watching, w.remote)
	if err != nil {
		return err
	}
	remote, err := w.milan.watchPods(watching, w.remote)
	if err != nil {
		return err
	}
	if err := w.createPods(ctx, []string{offloaded}, pods, streamEvery); err != nil {
		return err
	}
	if _, err := local.running.wait(ctx, pods); err != nil {
		return fmt.Errorf("waiting for the pods of the stream to run: %w", err)
	}
	if err := b.reportStream(pods, local, shadow, remote); err != nil {
		return err
	}
	return w.removeLoad(ctx)
}

func (b *bench) reportStream(pods int, local *podSightings, shadow *sightings, remote *podSightings) error {
	created, missing := latencies(local.bound.all(), shadow.all())
	if missing > 0 {
		return fmt.Errorf("%d pods of the stream were bound without a ShadowPod", missing)
	}
	reported, missing := latencies(remote.running.all(), local.running.all())
	if missing > 0 {
		return fmt.Errorf("%d pods of the stream ran in milan without the pod in rome saying so", missing)
	}
	note := fmt.Sprintf("%d pods, 5 a second; watch arrival times in one process; baseline: the reference system", pods)
	for _, m := range []struct {
		name      string
		values    []float64
		share     float64
		reference float64
	}{
		{"stream/scheduled-to-shadowpod-p50", created, 0.50, referenceShadowP50},
		{"stream/scheduled-to-shadowpod-p99", created, 0.99, referenceShadowP99},
		{"stream/remote-running-to-local-running-p50", reported, 0.50, referenceRunningP50},
		{"stream/remote-running-to-local-running-p99", reported, 0.99, referenceRunningP99},
	} {
		b.record.add(compare(m.name, "ms", percentile(m.values, m.share), m.reference, ratioGoal(streamGoal), note))
	}
	return nil
}
