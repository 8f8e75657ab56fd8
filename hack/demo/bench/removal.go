package main

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/longshore-dev/longshore/hack/demo/rig"
)

const (
	removedTime      = "burst/removed"
	removedRequests  = "requests/per-removed-pod"
	removedNote      = "from the Deployments' deletion until nothing is left on either side, for %d pods; baseline: the plain client in the same run, which deletes its ShadowPods with 10 requests under way"
	removedPlainNote = "the plain client: ShadowPods deleted until neither they nor their pods are left"
	removedOursNote  = "all requests of Longshore in both clusters while %d pods were taken away, events included, leases not; baseline: Longshore's while the plain client's ShadowPods were"
	removedCPUNote   = "user and system time of Longshore's processes while %d pods were taken away; baseline: while the plain client's ShadowPods were"
	removedAllNote   = "requests of all clients for pods and ShadowPods in the provider, the garbage collector's and the kubelets' included; baseline: the same for the plain client's"
)

// removal is what it took to take a burst away.
type removal struct {
	seconds       float64
	asked         counts
	before, after usages
}

// remove takes a burst away, and counts what was asked until a moment after.
func (b *bench) remove(ctx context.Context, remove func(context.Context) error) (removal, error) {
	window, err := b.open()
	if err != nil {
		return removal{}, err
	}
	began := time.Now()
	if err := remove(ctx); err != nil {
		return removal{}, err
	}
	seconds := time.Since(began).Seconds()
	b.logf("burst: taken away in %.1fs", seconds)
	if err := pause(ctx, settleAfterLoad); err != nil {
		return removal{}, err
	}
	after, err := b.testbed.usage()
	if err != nil {
		return removal{}, err
	}
	asked, err := b.testbed.audit.since()
	return removal{seconds: seconds, asked: asked, before: window.before, after: after}, err
}

// reportRemoval records what Longshore needed to take its pods away, beside the plain
// client.
func (b *bench) reportRemoval(through, plainly removal) {
	pods := b.sizes.burst
	per := func(n int) float64 { return float64(n) / float64(pods) }
	b.record.add(
		compare(removedTime, "s", through.seconds, plainly.seconds, goal{}, fmt.Sprintf(removedNote, pods)),
		figure("burst/plain-removed", "s", plainly.seconds, removedPlainNote),
		compare(removedRequests, requestUnit, per(through.asked.sum(request.isLongshores)), per(plainly.asked.sum(request.isLongshores)), goal{}, fmt.Sprintf(removedOursNote, pods)),
		compare(removedRequests+"-in-the-provider", requestUnit, per(through.asked.sum(request.ofRemotePods)), per(plainly.asked.sum(request.ofRemotePods)), goal{}, removedAllNote),
	)
	cpu := func(r removal, keep func(string) bool) float64 {
		return cpuBetween(r.before, r.after, keep) / float64(pods)
	}
	all := func(string) bool { return true }
	b.record.add(
		compare("cpu/longshore-per-removed-pod", cpuUnit, cpu(through, ours), cpu(plainly, ours), goal{}, fmt.Sprintf(removedCPUNote, pods)),
		compare("cpu/rig-per-removed-pod", cpuUnit, cpu(through, all), cpu(plainly, all), goal{}, "the same of all processes; control planes, kwok and this client included"),
	)
	for _, process := range slices.Sorted(maps.Keys(through.after)) {
		b.record.add(figure("cpu/per-removed-pod/"+process, cpuUnit, cpu(through, func(name string) bool { return name == process }), ""))
	}
	name := func(r request) string {
		if !r.isLongshores() && !r.ofRemotePods() {
			return ""
		}
		return r.String()
	}
	groups, beside := through.asked.group(name), plainly.asked.group(name)
	for _, name := range byCount(groups) {
		baseline := math.NaN()
		if n := beside[name]; n > 0 {
			baseline = per(n)
		}
		b.record.add(compare(removedRequests+"/"+name, requestUnit, per(groups[name]), baseline, goal{}, ""))
	}
}

// isLongshores reports whether Longshore sent the request and it is not about a lease.
func (r request) isLongshores() bool { return r.Ours && !r.lease() }

// ofRemotePods reports whether the request is about pods or ShadowPods in the provider.
func (r request) ofRemotePods() bool {
	if r.Cluster != rig.Provider {
		return false
	}
	switch r.Resource {
	case podResource.Resource, podResource.Resource + "/status", shadowPods.Resource, shadowPods.Resource + "/status":
		return true
	default:
		return false
	}
}
