package main

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// The reference system's virtual kubelet in MiB (same source as the stream's).
const (
	referenceIdle, referenceLoaded = 62, 190
	idleGoal, loadedGoal           = 45, 110
	// allIdleGoal is for all processes of both clusters together.
	allIdleGoal    = 100
	virtualKubelet = "longshore/virtual-kubelet@rome"
	mib            = "MiB"
	// policiesSettle is how long the built-in policies of a fresh installation need to leave memory:
	// a minute after the last call.
	policiesSettle = 75 * time.Second
)

// memoryIdle records memory before the first pod.
func (b *bench) memoryIdle(ctx context.Context) error {
	if err := pause(ctx, b.shorter(policiesSettle)); err != nil {
		return err
	}
	u, err := b.testbed.usage()
	if err != nil {
		return err
	}
	if _, ok := u[virtualKubelet]; !ok {
		return fmt.Errorf("no virtual kubelet among the processes %v", slices.Sorted(maps.Keys(u)))
	}
	b.reportMemory(u, "idle", "before the first pod", referenceIdle, valueGoal(idleGoal), valueGoal(allIdleGoal))
	return nil
}

// memoryLoaded records memory with the burst's pods.
func (b *bench) memoryLoaded() error {
	u, err := b.testbed.usage()
	if err != nil {
		return err
	}
	baseline, bound := float64(referenceLoaded), valueGoal(loadedGoal)
	if b.pods != referenceBurst {
		baseline, bound = math.NaN(), goal{}
	}
	b.reportMemory(u, "loaded", fmt.Sprintf("with %d pods", b.pods), baseline, bound, goal{})
	return nil
}

func (b *bench) reportMemory(u usages, when, note string, reference float64, kubelet, all goal) {
	b.record.add(
		compare("memory/virtual-kubelet-"+when, mib, u[virtualKubelet].rss, reference, kubelet, "resident, "+note+"; baseline: the reference system"),
		figure("memory/virtual-kubelet-"+when+"-anonymous", mib, u[virtualKubelet].anonymous, "the part that no other process of the same program shares, "+note),
	)
	total := 0.0
	for _, process := range slices.Sorted(maps.Keys(u)) {
		if !ours(process) {
			continue
		}
		total += u[process].anonymous
		if process != virtualKubelet {
			b.record.add(figure("memory/"+process+"-"+when, mib, u[process].rss, "resident, "+note))
		}
	}
	b.record.add(figure("memory/longshore-"+when+"-anonymous", mib, total, "sum over all processes of Longshore in both clusters, "+note).bounded(all))
}
