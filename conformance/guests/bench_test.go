package guests_test

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	builtinpolicies "github.com/longshore-dev/longshore/builtin-policies"
	"github.com/longshore-dev/longshore/conformance/guests"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/module"
	"github.com/longshore-dev/longshore/sdk/contract"
)

func newEngine(b *testing.B) *engine.Engine {
	b.Helper()
	e, err := engine.New(b.Context(), engine.Options{CacheDir: cache})
	require.NoError(b, err)
	b.Cleanup(func() { assert.NoError(b, e.Close(context.WithoutCancel(b.Context()))) })
	return e
}

// BenchmarkIdle shows what a bound module takes that was asked and then waits: memory,
// snapshot and heap; machine code apart. One is loaded before, so that what all modules
// share does not count.
func BenchmarkIdle(b *testing.B) {
	test := func(name string, raw []byte, question string) {
		b.Run(name, func(b *testing.B) {
			const modules = 5
			e := newEngine(b)
			load := func() *module.Module {
				m, err := module.Load(b.Context(), e, raw, module.Options{Name: name})
				require.NoError(b, err)
				for range 20 {
					_, _, err := m.Call(b.Context(), contract.PodMutation.Export(), []byte(question))
					require.NoError(b, err)
				}
				return m
			}
			measure := func() guests.Memory {
				time.Sleep(10 * time.Millisecond) // the last resets end
				used, err := guests.Resident()
				require.NoError(b, err)
				return used
			}
			first := load()
			before := measure()
			var kept []*module.Module
			for range modules {
				kept = append(kept, load())
			}
			after := measure()
			for b.Loop() {
			}
			runtime.KeepAlive(append(kept, first))
			b.ReportMetric(float64(after.Code-before.Code)/modules/(1<<20), "code-MiB")
			b.ReportMetric(float64(after.Other-before.Other)/modules/(1<<20), "MiB")
		})
	}
	for _, g := range guests.All() {
		test(g.Name, g.Wasm(b), questions["a large pod"].request)
	}
	packed, err := builtinpolicies.Module()
	require.NoError(b, err)
	test("built-in policies", packed, `{"version": "v1alpha1", "point": "PodMutation", "moment": "Admission", "facts": {"object": {}, "offloading": {"podOffloadingStrategy": "Remote", "clusterSelector": {}}, "runtimeClassName": "liqo"}}`)
}

// BenchmarkGuests measures a decision of each guest about a pod of 7 KB, and about what
// the host would send of it; p50 of calls that do not follow each other without pause.
func BenchmarkGuests(b *testing.B) {
	for _, g := range guests.All() {
		wasm := g.Wasm(b)
		m, err := module.Load(b.Context(), newEngine(b), wasm, module.Options{Name: g.Name})
		require.NoError(b, err)
		for name, q := range map[string]string{"pod": questions["a large pod"].request, "projected": questions["the selector among others"].request} {
			b.Run(g.Name+"/"+name, func(b *testing.B) {
				var times []time.Duration
				for b.Loop() {
					began := time.Now()
					_, _, err := m.Call(b.Context(), contract.PodMutation.Export(), []byte(q))
					times = append(times, time.Since(began))
					if err != nil {
						b.Fatal(err)
					}
					for ready := time.Now().Add(100 * time.Microsecond); time.Now().Before(ready); {
						runtime.Gosched()
					}
				}
				slices.Sort(times)
				b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1000, "p50-us")
			})
		}
	}
}
