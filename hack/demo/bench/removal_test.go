package main

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/hack/demo/rig"
)

func TestARemovalIsSetBesideThePlainClients(t *testing.T) {
	const collector = "system:serviceaccount:kube-system:generic-garbage-collector"
	ask := func(cluster, who string, ours bool, verb, resource string) request {
		return request{Cluster: cluster, Who: who, Ours: ours, Verb: verb, Resource: resource}
	}
	through := removal{seconds: 6, asked: counts{
		ask(rig.Provider, "virtual-kubelet", true, "delete", "shadowpods"): 10,
		ask(rig.Consumer, "virtual-kubelet", true, "delete", "pods"):       10,
		ask(rig.Consumer, "virtual-kubelet", true, "update", "leases"):     3,
		ask(rig.Provider, collector, false, "delete", "pods"):              10,
		ask(rig.Provider, collector, false, "get", "replicasets"):          7,
		ask(rig.Consumer, collector, false, "delete", "pods"):              10,
	}}
	plainly := removal{seconds: 3, asked: counts{
		ask(rig.Provider, "admin", false, "delete", "shadowpods"): 10,
		ask(rig.Provider, collector, false, "delete", "pods"):     5,
	}}
	b := &bench{record: newRecorder("", origin{}, regexp.MustCompile("").MatchString), sizes: sizes{burst: 10}}
	b.reportRemoval(through, plainly)
	got := map[string]Result{}
	for _, result := range b.record.results() {
		got[result.Name] = result
	}
	row := func(name string) Result {
		require.Contains(t, got, name)
		return got[name]
	}
	assert.InDelta(t, 2, *row("burst/removed").Ratio, 0)
	assert.InDelta(t, 2, row("requests/per-removed-pod").Value, 0, "leases and others are not Longshore's")
	assert.InDelta(t, 2, row("requests/per-removed-pod-in-the-provider").Value, 0, "pods and ShadowPods only, of all clients")
	assert.InDelta(t, 1.5, *row("requests/per-removed-pod-in-the-provider").Baseline, 0)
	assert.InDelta(t, 0.5, *row("requests/per-removed-pod/" + collector + "@milan/delete/pods").Baseline, 0)
	assert.NotContains(t, got, "requests/per-removed-pod/"+collector+"@rome/delete/pods")
	assert.NotContains(t, got, "requests/per-removed-pod/"+collector+"@milan/get/replicasets")
}
