package manager_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	"github.com/longshore-dev/longshore/host/app/manager"
	appscheme "github.com/longshore-dev/longshore/host/app/scheme"
	"github.com/longshore-dev/longshore/host/internal/testkit/chartrights"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// settled is how long nothing must change.
const settled = 5 * time.Second

// footprint is what the process uses after a garbage collection, in KiB.
type footprint struct{ heap, stacks, goroutines float64 }

// measure waits until nothing is being started or freed.
func measure(b *testing.B) footprint {
	b.Helper()
	const kib = 1024
	var last footprint
	since := time.Now()
	planetest.Until(b, func(planetest.T) bool {
		runtime.GC()
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		now := footprint{heap: float64(memory.HeapAlloc) / kib, stacks: float64(memory.StackInuse) / kib, goroutines: float64(runtime.NumGoroutine())}
		if now.goroutines != last.goroutines || math.Abs(now.heap-last.heap) > kib/2 {
			last, since = now, time.Now()
		}
		return time.Since(since) > settled
	}, soon, time.Second, "goroutines and heap settle")
	return last
}

// BenchmarkPeers measures what each of 50 providers costs the manager of a consumer when nothing
// happens: a connection and watches towards the provider, and what is watched in the own cluster.
// Run it with -benchtime 1x, and with -memprofile to see what it is.
func BenchmarkPeers(b *testing.B) {
	const peers = 50
	planes := planetest.ForTests(b, "rome", "milan")
	connection := planes[0].RESTConfig()
	kinds, err := appscheme.New()
	require.NoError(b, err)
	rome, err := client.New(connection, client.Options{Scheme: kinds})
	require.NoError(b, err)
	app, err := manager.New(manager.Options{
		ShadowPodWorkers: 1, ShadowEndpointSliceWorkers: 1, PingInterval: 15 * time.Second, PingTimeout: 5 * time.Second, Replication: true,
		Options: ofCluster("rome", connection),
	})
	require.NoError(b, err)
	require.NoError(b, rome.Create(b.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: chartrights.Namespace}}))
	ctx, cancel := context.WithCancel(b.Context())
	var done sync.WaitGroup
	done.Go(func() { assert.NoError(b, app.Run(ctx)) })
	b.Cleanup(func() { cancel(); done.Wait() })

	before := measure(b)
	for b.Loop() {
		for i := range peers {
			name := fmt.Sprintf("peer-%02d", i)
			certificate, key, err := planes[1].IssueClientCert(name, []string{"system:masters"})
			require.NoError(b, err)
			kubeconfig, err := planes[1].KubeconfigFor("", certificate, key)
			require.NoError(b, err)
			home := authentication.TenantNamespace(liqocorev1beta1.ClusterID(name))
			require.NoError(b, rome.Create(b.Context(), home))
			require.NoError(b, rome.Create(b.Context(), &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: "kubeconfig-controlplane-" + name, Namespace: home.Name, Labels: map[string]string{
					"liqo.io/remote-cluster-id": name, "liqo.io/identity-type": "ControlPlane",
				}, Annotations: map[string]string{"liqo.io/remote-tenant-namespace": "liqo-tenant-rome"}},
				Data: map[string][]byte{"kubeconfig": kubeconfig},
			}))
		}
		planetest.Until(b, func(t planetest.T) bool {
			list := &liqocorev1beta1.ForeignClusterList{}
			require.NoError(t, rome.List(t.Context(), list))
			return len(list.Items) == peers
		}, soon, tick, "the manager knows all peers")
	}
	after := measure(b)
	b.ReportMetric((after.heap-before.heap)/peers, "heap-KiB/peer")
	b.ReportMetric((after.stacks-before.stacks)/peers, "stack-KiB/peer")
	b.ReportMetric((after.goroutines-before.goroutines)/peers, "goroutines/peer")
}
