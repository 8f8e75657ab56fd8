package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// settleAfterLoad is how long the last reports and events of a load may take.
const settleAfterLoad = 3 * time.Second

// window is what was asked and used while something was done.
type window struct {
	asked         counts
	before, after usages
}

// during does something, waits until what it left to be done is over, and returns what was asked and used.
func (b *bench) during(ctx context.Context, settle time.Duration, do func(context.Context) error) (w window, err error) {
	if err := b.testbed.audit.mark(); err != nil {
		return window{}, err
	}
	if w.before, err = b.testbed.usage(); err != nil {
		return window{}, err
	}
	if err := do(ctx); err != nil {
		return window{}, err
	}
	if err := pause(ctx, settle); err != nil {
		return window{}, err
	}
	if w.after, err = b.testbed.usage(); err != nil {
		return window{}, err
	}
	w.asked, err = b.testbed.audit.since()
	return w, err
}

// cpu is the time used by the processes that keep wants, of those that live.
func (w *window) cpu(keep func(string) bool) float64 {
	total := 0.0
	for process, used := range w.after {
		if keep(process) {
			total += used.cpu - w.before[process].cpu
		}
	}
	return total
}

// requests adds up the requests that keep wants.
func (w *window) requests(keep func(request) bool) float64 { return float64(w.asked.sum(keep)) }

// logRequests logs Longshore's requests by component, cluster, verb and resource, the most frequent first.
func (b *bench) logRequests(what string, asked counts) {
	groups := map[string]int{}
	for r, n := range asked {
		if r.Ours {
			groups[r.String()] += n
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(groups), func(a, b string) int { return groups[b] - groups[a] }) {
		b.logf("%s: %6d %s", what, groups[name], name)
	}
}

// String is component@cluster/verb/resource.
func (r request) String() string {
	return fmt.Sprintf("%s@%s/%s/%s", r.Who, r.Cluster, r.Verb, strings.TrimPrefix(r.Resource, "/"))
}

// ofLongshore reports whether Longshore sent the request and it is not about a lease.
func (r request) ofLongshore() bool { return r.Ours && !r.lease() }

// disturbs reports whether Longshore sent the request although nothing happens.
func (r request) disturbs() bool { return r.ofLongshore() && !r.heartbeat() }

// heartbeat reports whether a component sends the request periodically: the health checks of the
// provider, by a virtual kubelet and, as the identity of the control plane, by the manager, and the reads and
// writes of a virtual kubelet's own Node's status.
func (r request) heartbeat() bool {
	return r.Resource == "/livez" || r.Who == "replicator" && r.Verb == "list" && r.Resource == "resourceslices" || r.Who == "virtual-kubelet" && (r.Resource == "nodes" || r.Resource == "nodes/status")
}
