package report

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/operation"
)

func TestDifferencesRequestReports(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	var requests []time.Duration
	d := NewDifferences(clock, time.Minute, func(after time.Duration) { requests = append(requests, after) })
	differs := func(policy string) {
		d.Observe(chain.Observation{Binding: policy, Shadow: true, Difference: &chain.Difference{Name: clock.Now().String()}})
	}
	d.Keep(map[string]string{"p": "1"})
	d.Observe(chain.Observation{Binding: "p"})
	d.Observe(chain.Observation{Binding: "p", Shadow: true})
	differs("another")
	assert.Empty(t, requests, "only differences of policies in mode Shadow are reported")

	for range 100 {
		differs("p")
	}
	assert.Equal(t, []time.Duration{gatherPeriod}, requests, "one report for all")
	assert.Empty(t, d.Of("p"), "before the report")
	d.Update()
	assert.Len(t, d.Of("p"), maxDifferences)
	first := d.Of("p")

	clock.SetTime(clock.Now().Add(20 * time.Second))
	differs("p")
	assert.Equal(t, []time.Duration{gatherPeriod, 40 * time.Second}, requests)
	clock.SetTime(clock.Now().Add(30 * time.Second))
	d.Update()
	assert.Equal(t, first, d.Of("p"), "once a period")
	assert.Equal(t, 10*time.Second, requests[2], "an early report requests another one")
	clock.SetTime(clock.Now().Add(10 * time.Second))
	d.Update()
	assert.NotEqual(t, first, d.Of("p"))

	clock.SetTime(clock.Now().Add(time.Hour))
	d.Update()
	assert.Len(t, requests, 3, "no difference, no request")
	differs("p")
	assert.Equal(t, gatherPeriod, requests[3], "soon, after a quiet period")
	d.Keep(map[string]string{"p": "2"})
	assert.Empty(t, d.Of("p"), "another version")
	d.Keep(nil)
	assert.Nil(t, d.Of("p"))
}

func TestADifferenceIsBounded(t *testing.T) {
	var effects []operation.Effect
	for range 20 {
		effects = append(effects, operation.Effect{Verb: "merge", Path: "/metadata/labels", Keys: []string{strings.Repeat("k", 1000)}})
	}
	d := newDifference(chain.Observation{Difference: &chain.Difference{Effects: effects}}, time.Time{})
	assert.Len(t, d.Operations, maxDifferenceOperations)
	assert.Equal(t, int32(4), d.Omitted)
	assert.LessOrEqual(t, len(d.Operations[0]), maxOperationBytes)
}
