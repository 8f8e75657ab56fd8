package main

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPercentiles(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[len(hundred)-1-i] = float64(i + 1)
	}
	tests := map[string]struct {
		values []float64
		p      float64
		want   float64
	}{
		"half of a hundred":              {hundred, 0.50, 50},
		"all but one of a hundred":       {hundred, 0.99, 99},
		"the largest":                    {hundred, 1, 100},
		"the smallest":                   {hundred, 0, 1},
		"of one value, that value":       {[]float64{7}, 0.99, 7},
		"of few values, the largest":     {[]float64{3, 1, 2}, 0.99, 3},
		"half of three is the middle":    {[]float64{3, 1, 2}, 0.50, 2},
		"half of four is the lower half": {[]float64{4, 1, 3, 2}, 0.50, 2},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			assert.InDelta(t, tc.want, percentile(tc.values, tc.p), 0)
		})
	}
	assert.True(t, math.IsNaN(percentile(nil, 0.5)), "no values have no percentile")
	assert.InDelta(t, 100, hundred[0], 0, "the input keeps its order")
}

func TestMedianAndSpread(t *testing.T) {
	assert.InDelta(t, 2, median([]float64{3, 1, 2}), 0)
	assert.InDelta(t, 2.5, median([]float64{4, 1, 3, 2}), 0)
	share, ok := spread([]float64{8, 12, 10})
	require.True(t, ok)
	assert.InDelta(t, 0.4, share, 1e-9)
	_, ok = spread([]float64{8})
	assert.False(t, ok, "one run has no spread")
	_, ok = spread([]float64{0, 0})
	assert.False(t, ok, "a share of nothing is nothing")
}

func TestLatencies(t *testing.T) {
	begin := time.Unix(1_700_000_000, 0)
	from := map[string]time.Time{"a": begin, "b": begin, "c": begin}
	to := map[string]time.Time{"a": begin.Add(1500 * time.Microsecond), "b": begin.Add(-time.Millisecond), "d": begin}
	values, missing := latencies(from, to)
	assert.ElementsMatch(t, []float64{1.5, -1}, values)
	assert.Equal(t, 1, missing, "c was never seen at the other end")
}

func timeAt(second int64) time.Time { return time.Unix(second, 0) }
