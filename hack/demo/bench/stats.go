package main

import (
	"math"
	"slices"
	"time"
)

// percentile is the smallest value that at least the share p (0 to 1) of the values do
// not exceed; NaN for no values.
func percentile(values []float64, p float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(p*float64(len(sorted)))) - 1
	return sorted[min(max(rank, 0), len(sorted)-1)]
}

// median is the middle value, the mean of the middle two for an even count.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// spread is the distance between the largest and the smallest value as a share of the
// median. It is undefined for fewer than two values.
func spread(values []float64) (float64, bool) {
	m := median(values)
	if len(values) < 2 || m == 0 {
		return 0, false
	}
	return (slices.Max(values) - slices.Min(values)) / math.Abs(m), true
}

// latencies are the times, in milliseconds, from each key's first moment to its second;
// keys that lack either are left out and counted.
func latencies(from, to map[string]time.Time) (values []float64, missing int) {
	for key, begin := range from {
		end, ok := to[key]
		if !ok {
			missing++
			continue
		}
		values = append(values, float64(end.Sub(begin))/float64(time.Millisecond))
	}
	return values, missing
}
