package main

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/longshore-dev/longshore/host/app/scheme"
	"github.com/longshore-dev/longshore/host/consumer/admission/podplacement"
	"github.com/longshore-dev/longshore/host/policy/view"
)

// The same measures as `make bench` makes, for `go test -bench . -cpuprofile`.

// median reports the median beside the mean: a call that finds no instance ready, or
// another process, disturbs it less.
func inMicroseconds(b *testing.B, call func() error) {
	b.Helper()
	var times []time.Duration
	b.ReportAllocs()
	for b.Loop() {
		began := time.Now()
		err := call()
		times = append(times, time.Since(began))
		if err != nil {
			b.Fatal(err)
		}
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1000, "p50-us")
}

func benchHosts(b *testing.B) *policyHosts {
	b.Helper()
	h, err := newPolicyHosts(b.Context(), b.TempDir())
	require.NoError(b, err)
	return h
}

// BenchmarkAdmission is [bench.admissions], one way after the other.
func BenchmarkAdmission(b *testing.B) {
	h := benchHosts(b)
	s, err := scheme.New()
	require.NoError(b, err)
	facts := admissionFacts()
	review, err := admissionReview()
	require.NoError(b, err)
	run := func(name string, hook http.Handler) {
		b.Run(name, func(b *testing.B) { inMicroseconds(b, func() error { return admit(b.Context(), hook, review) }) })
	}
	run("typical", &admission.Webhook{Handler: &typicalWebhook{decoder: admission.NewDecoder(s), facts: facts}})
	for name, way := range map[string][2]int{"four": {4, -1}, "one": {1, -1}, "remembered": {4, 0}} {
		chains, err := placementChains(h, way[0], way[1])
		require.NoError(b, err)
		run(name, podplacement.Serve(&podplacement.Handler{Reader: facts, Policies: chains, RuntimeClassName: "liqo"}))
	}
}

// BenchmarkRawPod is [bench.decisions].
func BenchmarkRawPod(b *testing.B) {
	h := benchHosts(b)
	facts := admissionFacts()
	raw, err := json.Marshal(sizeablePod())
	require.NoError(b, err)
	b.Run("native", func(b *testing.B) { inMicroseconds(b, func() error { return nativePatch(raw) }) })
	for name, memo := range map[string]int{"asked": -1, "remembered": 0} {
		chains, err := placementChains(h, 1, memo)
		require.NoError(b, err)
		b.Run(name, func(b *testing.B) {
			inMicroseconds(b, func() error {
				_, err := view.AdmitPod(b.Context(), chains, view.AdmissionInput{
					Raw: raw, Offloading: &facts.offloading.Spec, Namespace: facts.namespace, RuntimeClassName: "liqo",
				})
				return err
			})
		})
	}
}
