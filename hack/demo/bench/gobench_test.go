package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const goBenchmarkOutput = `goos: linux
pkg: github.com/longshore-dev/longshore/conformance/guests
=== RUN   BenchmarkIdle
BenchmarkIdle
BenchmarkIdle/c
BenchmarkIdle/c-2              	175002024	         1.348 ns/op	         0.1992 MiB	         0.05859 code-MiB
BenchmarkIdle/built-in_policies-16	100	  3.2 ns/op	 5.734 MiB	 9.738 code-MiB
BenchmarkIdleness-2	100	  3.2 ns/op	 5.734 MiB
PASS
ok  	github.com/longshore-dev/longshore/conformance/guests	9.012s
`

func TestGoBenchmarksAreRead(t *testing.T) {
	lines, err := parseGoBenchmark([]byte(goBenchmarkOutput), "BenchmarkIdle")
	require.NoError(t, err)
	assert.Equal(t, []goBenchmarkLine{
		{"c", map[string]float64{"ns/op": 1.348, "MiB": 0.1992, "code-MiB": 0.05859}},
		{"built-in_policies", map[string]float64{"ns/op": 3.2, "MiB": 5.734, "code-MiB": 9.738}},
	}, lines)
	lines, err = parseGoBenchmark([]byte("BenchmarkMemoHit-2  2548802  96.19 ns/op  0 B/op  0 allocs/op\n"), "BenchmarkMemoHit")
	require.NoError(t, err)
	require.Len(t, lines, 1)
	assert.Empty(t, lines[0].name)
	_, err = parseGoBenchmark([]byte("BenchmarkMemoHit-2  2548802  many ns/op\n"), "BenchmarkMemoHit")
	assert.ErrorContains(t, err, "many")
}

func TestGoalsOfGoBenchmarks(t *testing.T) {
	tests := map[string]struct {
		figures []sample
		goals   map[string]string
	}{
		"a plan of many pods":       {planFigures("", map[string]float64{"pods/s": 4000}), map[string]string{"plan/ten-thousand-pods": "value <= 500"}},
		"a guest without a runtime": {guestFigures("c/pod", map[string]float64{"p50-us": 15}), map[string]string{"policy/guest/c/pod": "value <= 25"}},
		"a guest with a runtime":    {guestFigures("golang/pod", map[string]float64{"p50-us": 50}), map[string]string{"policy/guest/golang/pod": ""}},
		"a guest in text form":      {guestFigures("text/pod", map[string]float64{"p50-us": 40}), map[string]string{"policy/guest/text/pod": ""}},
		"an idle module without a runtime": {idleFigures("text", map[string]float64{"MiB": 0.2, "code-MiB": 0.1}),
			map[string]string{"memory/idle-module/text": "value <= 1", "memory/idle-module-code/text": ""}},
		"the idle built-in policies": {idleFigures("built-in_policies", map[string]float64{"MiB": 5, "code-MiB": 9}),
			map[string]string{"memory/idle-module/built-in_policies": "value <= 10", "memory/idle-module-code/built-in_policies": ""}},
		"metering": {meteringFigures("podmutation/remote-product", map[string]float64{"metered-ns": 75000, "ratio": 1.2}),
			map[string]string{"policy/metered/podmutation/remote-product": "ratio <= 1.5"}},
		"a memo hit": {memoFigures("", map[string]float64{"ns/op": 90, "allocs/op": 0}),
			map[string]string{"policy/remembered-key-given": "value <= 500", "policy/remembered-key-given-allocations": "value <= 0"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			goals := map[string]string{}
			for _, result := range recorded("", tc.figures...) {
				goals[result.Name] = result.Goal
				assert.True(t, result.Met == nil || *result.Met, result.Name)
			}
			assert.Equal(t, tc.goals, goals)
		})
	}
}
