package main

import (
	"context"
	"fmt"
	"math"
	"time"
)

const (
	quietMinute = time.Minute
	// Components write the counters of the policies that they asked at most once a minute:
	// what the load left to be written is written within quietSettle. Then nothing else
	// may have been asked for quietSilence, or the wait goes on until quietPatience.
	quietSettle   = 65 * time.Second
	quietSilence  = 10 * time.Second
	quietPatience = 3 * time.Minute
	// quickShare of these is enough to try it out.
	quickShare = 5
)

// quiet counts what is asked in a minute in which nothing happens, with all pods there.
func (b *bench) quiet(ctx context.Context) error {
	minute, settle, silence := quietMinute, quietSettle, quietSilence
	if b.quick {
		minute, settle, silence = minute/quickShare, settle/quickShare, silence/quickShare
	}
	b.tell("quiet: what the load left is being written, %s at least", settle)
	if err := b.silence(ctx, settle, silence); err != nil {
		return err
	}
	b.tell("quiet: nothing happens for %s", minute)
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
	b.record.add(
		against("quiet/longshore-requests", "requests", float64(asked.sum(func(r request) bool { return r.Ours && !r.idle() })), math.NaN(), valueGoal(0),
			"neither leases nor heartbeats (a virtual kubelet's Node, and its question whether the provider lives), "+note+", after the policies' counters were written"),
		figure("quiet/longshore-leases-and-heartbeats", "requests", float64(asked.sum(func(r request) bool { return r.Ours && r.idle() })), note),
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

// silence returns when the load is that long ago and nothing but leases and heartbeats was
// asked by Longshore for a while, or when that does not come: then the minute shows it.
func (b *bench) silence(ctx context.Context, least, silence time.Duration) error {
	for began := time.Now(); time.Since(began) < quietPatience; {
		if err := b.world.audit.mark(); err != nil {
			return err
		}
		if err := pause(ctx, silence); err != nil {
			return err
		}
		asked, err := b.world.audit.since()
		if err != nil {
			return err
		}
		if time.Since(began) >= least && asked.sum(func(r request) bool { return r.Ours && !r.idle() }) == 0 {
			return nil
		}
	}
	b.tell("quiet: still not silent after %s", quietPatience)
	return nil
}

// idle is what is asked when nothing happens.
func (r request) idle() bool { return r.lease() || r.heartbeat() }

// heartbeat is what a virtual kubelet asks on a period: the provider whether it lives,
// and its own Node, to write that it is ready.
func (r request) heartbeat() bool {
	return r.Resource == "/livez" || r.Who == "virtual-kubelet" && (r.Resource == "nodes" || r.Resource == "nodes/status")
}
