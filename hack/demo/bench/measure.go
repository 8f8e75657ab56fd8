package main

import (
	"errors"
	"testing"
	"time"
)

const (
	// A sample takes at least this long, or reading the clock would be part of it.
	leastSample  = 10 * time.Microsecond
	sizingCalls  = 200
	largestBatch = 1000
)

// measure calls without pause for the benchmarks' time and returns the median in
// microseconds a call. A sample is one call, or as many short ones as the clock needs.
func measure(call func() error) (float64, error) {
	batch, err := batchOf(call)
	if err != nil {
		return 0, err
	}
	var samples []float64
	var failed error
	testing.Benchmark(func(b *testing.B) { //nolint:thelper // It is the benchmark itself.
		samples = samples[:0]
		for b.Loop() {
			began := time.Now()
			for range batch {
				if failed = call(); failed != nil {
					b.SkipNow()
				}
			}
			samples = append(samples, float64(time.Since(began).Nanoseconds())/1000/float64(batch))
		}
	})
	if failed != nil {
		return 0, failed
	}
	if len(samples) == 0 {
		return 0, errors.New("the benchmark did not run")
	}
	return median(samples), nil
}

// batchOf is how many calls make a sample that the clock can measure.
func batchOf(call func() error) (int, error) {
	began := time.Now()
	for range sizingCalls {
		if err := call(); err != nil {
			return 0, err
		}
	}
	each := max(time.Since(began)/sizingCalls, 1)
	return min(int((leastSample+each-1)/each), largestBatch), nil
}
