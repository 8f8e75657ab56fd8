package main

import (
	"context"
	"fmt"
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
	// quietGoal bounds all requests of the minute.
	quietGoal = 60
)

// quiet counts what is asked in a minute in which nothing happens, with all pods there.
func (b *bench) quiet(ctx context.Context) error {
	w, err := b.quietMinute(ctx, "quiet")
	if err != nil {
		return err
	}
	note := fmt.Sprintf("in %s with %d pods", b.shorter(quietMinute), b.pods)
	b.record.add(
		figure("quiet/longshore-all-requests", "requests", w.requests(func(r request) bool { return r.Ours }), "leases and heartbeats included, "+note).bounded(valueGoal(quietGoal)),
		figure("quiet/longshore-requests", "requests", w.requests(request.disturbs),
			"neither leases nor heartbeats (a virtual kubelet's Node, and its question whether the provider lives), "+note).bounded(valueGoal(0)),
		figure("quiet/longshore-cpu", "CPU-s", w.cpu(ours), note),
	)
	return nil
}

// quietMinute waits until what a load left is written, and returns a minute in which nothing happens.
func (b *bench) quietMinute(ctx context.Context, what string) (window, error) {
	minute := b.shorter(quietMinute)
	b.logf("%s: nothing happens for %s", what, minute)
	if err := b.silence(ctx); err != nil {
		return window{}, err
	}
	w, err := b.during(ctx, 0, func(ctx context.Context) error { return pause(ctx, minute) })
	b.logRequests(what, w.asked)
	return w, err
}

// silence returns when the load ended long enough ago and Longshore has sent nothing but
// leases, heartbeats and watches for a while. It gives up after quietPatience; the minute
// then shows the requests. API servers end watches after 5 to 10 minutes: with 500 namespaces there is always
// one that begins again.
func (b *bench) silence(ctx context.Context) error {
	for began := time.Now(); time.Since(began) < quietPatience; {
		w, err := b.during(ctx, b.shorter(quietSilence), func(context.Context) error { return nil })
		if err != nil {
			return err
		}
		if time.Since(began) >= b.shorter(quietSettle) && w.asked.sum(func(r request) bool { return r.disturbs() && r.Verb != "watch" }) == 0 {
			return nil
		}
	}
	b.logf("quiet: still not silent after %s", quietPatience)
	return nil
}
