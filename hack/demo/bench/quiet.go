package main

import (
	"context"
	"fmt"
	"math"
	"os"
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
	// quietGoal bounds all requests of the minute.
	quietGoal = 60
)

// quiet counts what is asked in a minute in which nothing happens, with all pods there.
func (b *bench) quiet(ctx context.Context) error {
	minute, settle, silence := b.quietTimes()
	b.logf("quiet: what the load left is being written, %s at least", settle)
	if err := b.silence(ctx, settle, silence); err != nil {
		return err
	}
	b.logf("quiet: nothing happens for %s", minute)
	window, err := b.open()
	if err != nil {
		return err
	}
	if err := clearReferenced("/proc", os.Getpid()); err != nil {
		return err
	}
	if err := pause(ctx, minute); err != nil {
		return err
	}
	after, err := b.testbed.usage()
	if err != nil {
		return err
	}
	sets, err := workingSets("/proc", os.Getpid())
	if err != nil {
		return err
	}
	asked, err := b.testbed.audit.since()
	if err != nil {
		return err
	}
	b.reportQuiet(asked, sets, cpuBetween(window.before, after, ours), minute)
	return nil
}

// quietTimes returns how long nothing happens, and how long is waited before.
func (b *bench) quietTimes() (minute, settle, silence time.Duration) {
	if b.quick {
		return quietMinute / quickShare, quietSettle / quickShare, quietSilence / quickShare
	}
	return quietMinute, quietSettle, quietSilence
}

// reportQuiet records the requests, the working sets and the CPU time of the quiet minute.
func (b *bench) reportQuiet(asked counts, sets map[string]float64, cpu float64, minute time.Duration) {
	note := fmt.Sprintf("in %s with %d pods", minute, b.sizes.burst)
	bound := goal{}
	if minute == quietMinute {
		bound = valueGoal(quietGoal)
	}
	b.record.add(
		figure("quiet/longshore-all-requests", "requests", float64(asked.sum(func(r request) bool { return r.Ours })), "leases and heartbeats included, "+note).bounded(bound),
		figure("quiet/longshore-leases", "requests", float64(asked.sum(func(r request) bool { return r.Ours && r.lease() })), "leader election and node leases, "+note),
		compare("quiet/longshore-requests", "requests", float64(asked.sum(func(r request) bool { return r.Ours && !r.idle() })), math.NaN(), valueGoal(0),
			"neither leases nor heartbeats (a virtual kubelet's Node, and its question whether the provider lives), "+note+", after the policies' counters were written"),
		figure("quiet/longshore-leases-and-heartbeats", "requests", float64(asked.sum(func(r request) bool { return r.Ours && r.idle() })), note),
		figure("quiet/longshore-cpu", "CPU-s", cpu, note),
	)
	total := 0.0
	for process, set := range sets {
		if ours(process) {
			total += set
		}
	}
	const touched = "pages that were read or written "
	b.record.add(
		figure("quiet/longshore-working-set", mib, total, touched+note+"; sum over all processes of Longshore in both clusters"),
		figure("quiet/virtual-kubelet-working-set", mib, sets[virtualKubelet], touched+note),
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
}

// silence returns when the load ended long enough ago and Longshore has sent nothing but
// leases, heartbeats and watches for a while. It gives up after quietPatience; the minute
// then shows the requests. API servers end watches after 5 to 10 minutes: with 500 namespaces there is always
// one that begins again.
func (b *bench) silence(ctx context.Context, least, silence time.Duration) error {
	for began := time.Now(); time.Since(began) < quietPatience; {
		if err := b.testbed.audit.mark(); err != nil {
			return err
		}
		if err := pause(ctx, silence); err != nil {
			return err
		}
		asked, err := b.testbed.audit.since()
		if err != nil {
			return err
		}
		if time.Since(began) >= least && asked.sum(func(r request) bool { return r.Ours && !r.idle() && r.Verb != "watch" }) == 0 {
			return nil
		}
	}
	b.logf("quiet: still not silent after %s", quietPatience)
	return nil
}

// idle reports whether the request is one of those sent when nothing happens.
func (r request) idle() bool { return r.lease() || r.heartbeat() }

// heartbeat reports whether a virtual kubelet sends the request periodically: the health
// check of the provider, and the reads and writes of its own Node's status.
func (r request) heartbeat() bool {
	return r.Resource == "/livez" || r.Who == "virtual-kubelet" && (r.Resource == "nodes" || r.Resource == "nodes/status")
}
