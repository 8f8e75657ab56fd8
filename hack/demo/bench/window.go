package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// What the reference system needs per offloaded pod (same source as the stream's).
const (
	referenceRequests    = 22.1
	referenceCPU         = 0.036
	referenceRigCPU      = 0.18
	requestsGoal         = 9
	cpuGoal              = 0.5
	cpuUnit, requestUnit = "CPU-s/pod", "requests/pod"
)

// window is the time between two readings of what was asked and used.
type window struct{ before usages }

// open begins a window.
func (b *bench) open() (window, error) {
	if err := b.testbed.audit.mark(); err != nil {
		return window{}, err
	}
	before, err := b.testbed.usage()
	return window{before}, err
}

// reportWindow ends a window after a moment in which the last reports and events come
// in, and records requests and CPU time per pod. Goals are those of the burst.
func (b *bench) reportWindow(ctx context.Context, w window, suffix string, pods int, detailed bool) error {
	if err := pause(ctx, settleAfterLoad); err != nil {
		return err
	}
	after, err := b.testbed.usage()
	if err != nil {
		return err
	}
	asked, err := b.testbed.audit.since()
	if err != nil {
		return err
	}
	if suffix != "" {
		suffix = "-" + suffix
	}
	b.reportRequests(asked, suffix, pods, detailed)
	b.reportCPU(w.before, after, suffix, pods, detailed)
	return nil
}

func (b *bench) reportRequests(asked counts, suffix string, pods int, detailed bool) {
	per := func(n int) float64 { return float64(n) / float64(pods) }
	counted := func(r request) bool { return r.Ours && !r.lease() }
	note := fmt.Sprintf("all requests of Longshore in both clusters while %d pods were offloaded, events included, leases not; baseline: the reference system", pods)
	b.record.add(
		compare("requests/per-pod"+suffix, requestUnit, per(asked.sum(counted)), referenceRequests, valueGoal(requestsGoal), note),
		figure("requests/failed-per-pod"+suffix, requestUnit, per(asked.sum(func(r request) bool { return counted(r) && r.Failed })), "part of the above that the API servers refused"),
		figure("requests/leases"+suffix, "requests", float64(asked.sum(func(r request) bool { return r.Ours && r.lease() })), "by Longshore in the same time, not part of the above"),
	)
	if !detailed {
		return
	}
	groups := asked.group(func(r request) string {
		if !counted(r) {
			return ""
		}
		return r.String()
	})
	for _, name := range byCount(groups) {
		b.record.add(figure("requests/per-pod/"+name, requestUnit, per(groups[name]), ""))
	}
}

// String is component@cluster/verb/resource.
func (r request) String() string {
	return r.Who + "@" + r.Cluster + "/" + r.Verb + "/" + strings.TrimPrefix(r.Resource, "/")
}

// byCount sorts names by their number, largest first.
func byCount(groups map[string]int) []string {
	return slices.SortedFunc(maps.Keys(groups), func(a, b string) int {
		if groups[a] != groups[b] {
			return groups[b] - groups[a]
		}
		return strings.Compare(a, b)
	})
}

func (b *bench) reportCPU(before, after usages, suffix string, pods int, detailed bool) {
	per := func(keep func(string) bool) float64 { return cpuBetween(before, after, keep) / float64(pods) }
	note := fmt.Sprintf("user and system time while %d pods were offloaded; baseline: the reference system", pods)
	b.record.add(
		compare("cpu/longshore-per-pod"+suffix, cpuUnit, per(ours), referenceCPU, ratioGoal(cpuGoal), note),
		compare("cpu/rig-per-pod"+suffix, cpuUnit, per(func(string) bool { return true }), referenceRigCPU, ratioGoal(cpuGoal),
			note+"; control planes, kwok and this client included"),
	)
	if !detailed {
		return
	}
	for _, process := range slices.Sorted(maps.Keys(after)) {
		b.record.add(figure("cpu/per-pod/"+process, cpuUnit, per(func(name string) bool { return name == process }), ""))
	}
}
