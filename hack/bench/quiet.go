package main

import (
	"context"
	"fmt"
	"math"
	"time"
)

const (
	quietSettle = 20 * time.Second
	quietMinute = time.Minute
)

// quiet counts what is asked in a minute in which nothing happens, with all pods there.
func (b *bench) quiet(ctx context.Context) error {
	settle, minute := quietSettle, quietMinute
	if b.quick {
		settle, minute = settle/4, minute/4
	}
	b.tell("quiet: nothing happens for %s", settle+minute)
	if err := pause(ctx, settle); err != nil {
		return err
	}
	window, err := b.open()
	if err != nil {
		return err
	}
	if err := pause(ctx, minute); err != nil {
		return err
	}
	after, err := b.world.usage()
	if err != nil {
		return err
	}
	asked, err := b.world.audit.since()
	if err != nil {
		return err
	}
	note := fmt.Sprintf("in %s with %d pods", minute, b.sizes.burst)
	idle := func(r request) bool { return r.lease() || r.heartbeat() }
	b.record.add(
		against("quiet/longshore-requests", "requests", float64(asked.sum(func(r request) bool { return r.Ours && !idle(r) })), math.NaN(), valueGoal(0),
			"neither leases nor heartbeats (a virtual kubelet's Node, and its question whether the provider lives), "+note),
		figure("quiet/longshore-leases-and-heartbeats", "requests", float64(asked.sum(func(r request) bool { return r.Ours && idle(r) })), note),
		figure("quiet/longshore-cpu", "CPU-s", cpuBetween(window.before, after, ours), note),
	)
	groups := asked.group(func(r request) string {
		if r.Ours {
			return "longshore/" + r.String()
		}
		return "others/" + r.String()
	})
	for _, name := range byCount(groups) {
		b.record.add(figure("quiet/"+name, "requests", float64(groups[name]), note))
	}
	return nil
}

// heartbeat is what a virtual kubelet asks on a period: the provider whether it lives,
// and its own Node, to write that it is ready.
func (r request) heartbeat() bool {
	return r.Resource == "/livez" || r.Who == "virtual-kubelet" && (r.Resource == "nodes" || r.Resource == "nodes/status")
}
