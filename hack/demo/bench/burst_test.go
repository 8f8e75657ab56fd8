package main

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/hack/demo/rig"
)

func TestABurstIsSetBesideThePlainClientsAndTheFloor(t *testing.T) {
	ask := func(who string, ours bool, verb, resource string) request {
		return request{Cluster: rig.Provider, Who: who, Ours: ours, Verb: verb, Resource: resource}
	}
	through := burstCost{burstTimes{running: 4, shadows: 3}, 6, window{asked: counts{
		ask("virtual-kubelet", true, "delete", "shadowpods"): 10,
		ask("virtual-kubelet", true, "delete", "pods"):       10,
		ask("virtual-kubelet", true, "update", "leases"):     3,
		ask("garbage-collector", false, "delete", "pods"):    10,
	}}}
	plainly := burstCost{burstTimes{running: 2, shadows: 1}, 3, window{}}
	floor := burstCost{burstTimes{running: 8}, 12, window{}}
	b := &bench{record: newRecorder("", origin{}, regexp.MustCompile("").MatchString), options: options{pods: 10}}
	b.reportBurst(through, plainly, floor)
	got := map[string]Result{}
	for _, result := range b.record.results() {
		got[result.Name] = result
	}
	for name, ratio := range map[string]float64{
		"burst/shadowpods-exist": 3, "burst/local-pods-running": 2, "burst/local-pods-running-beside-floor": 0.5,
		"burst/removed": 2, "burst/removed-beside-floor": 0.5,
	} {
		require.NotNil(t, got[name].Ratio, name)
		assert.InDelta(t, ratio, *got[name].Ratio, 0, name)
	}
	assert.InDelta(t, 2, got["requests/per-removed-pod"].Value, 0, "leases and others are not Longshore's")
}
