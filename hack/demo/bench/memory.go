package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// The reference system's virtual kubelet in MiB (same source as the stream's).
const (
	referenceIdle, referenceLoaded = 62, 190
	idleGoal, loadedGoal           = 45, 110
	// Goals of all processes of both clusters together, and of the webhooks.
	allIdleGoal, webhooksIdleGoal = 100, 50
	virtualKubelet                = "longshore/virtual-kubelet@rome"
	mib                           = "MiB"
)

// memoryIdle records resident memory before the first pod.
func (b *bench) memoryIdle() error {
	u, err := b.testbed.usage()
	if err != nil {
		return err
	}
	if _, ok := u[virtualKubelet]; !ok {
		return fmt.Errorf("no virtual kubelet among the processes %v", slices.Sorted(maps.Keys(u)))
	}
	b.record.add(compare("memory/virtual-kubelet-idle", mib, u[virtualKubelet].rss, referenceIdle, valueGoal(idleGoal),
		"resident, before the first pod; baseline: the reference system"))
	b.reportSums(u, "idle", valueGoal(allIdleGoal), valueGoal(webhooksIdleGoal))
	b.reportOthers(u, "idle")
	return nil
}

// memoryLoaded records resident memory with the burst's pods.
func (b *bench) memoryLoaded() error {
	u, err := b.testbed.usage()
	if err != nil {
		return err
	}
	baseline, g, note := float64(referenceLoaded), valueGoal(loadedGoal), "; baseline: the reference system"
	if b.sizes.burst != referenceBurst {
		baseline, g, note = math.NaN(), goal{}, ""
	}
	b.record.add(compare("memory/virtual-kubelet-loaded", mib, u[virtualKubelet].rss, baseline, g,
		fmt.Sprintf("resident, with %d pods%s", b.sizes.burst, note)))
	b.record.add(
		figure("memory/virtual-kubelet-peak", mib, u[virtualKubelet].peak, "largest resident memory since its start, after the burst"),
		figure("memory/longshore-peak", mib, u.sum(ours, func(u usage) float64 { return u.peak }),
			"sum over all processes of Longshore in both clusters, each at its own peak since its start"),
	)
	b.reportSums(u, "loaded", goal{}, goal{})
	b.reportOthers(u, "loaded")
	return nil
}

// reportSums records the memory of all processes of Longshore in both clusters together.
func (b *bench) reportSums(u usages, when string, anonymous, webhook goal) {
	const all = "sum over all processes of Longshore in both clusters; "
	resident := func(u usage) float64 { return u.rss }
	b.record.add(
		figure("memory/longshore-"+when, mib, u.sum(ours, resident), all+"resident: pages of the program file count once in each process"),
		figure("memory/longshore-"+when+"-anonymous", mib, u.sum(ours, func(u usage) float64 { return u.anonymous }),
			all+"anonymous: the part that processes do not share").bounded(anonymous),
		figure("memory/webhooks-"+when, mib, u.sum(webhooks, resident), "sum over the webhooks of both clusters; resident").bounded(webhook),
	)
}

func (b *bench) reportOthers(u usages, when string) {
	b.record.add(figure("memory/virtual-kubelet-"+when+"-anonymous", mib, u[virtualKubelet].anonymous,
		"part of the resident memory that no other process of the same program shares"))
	for _, process := range slices.Sorted(maps.Keys(u)) {
		if process != virtualKubelet {
			b.record.add(figure("memory/"+process+"-"+when, mib, u[process].rss, "resident; for information"))
		}
	}
}
