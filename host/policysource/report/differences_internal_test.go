package report

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/operation"
	"github.com/longshore-dev/longshore/host/policysource/plan"
)

func TestDifferencesAreReportedOnceAMinute(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	d := NewDifferences(clock)
	var requests []time.Duration
	observe := func(o chain.Observation) {
		if delay, isFirst := d.Observe(o); isFirst {
			requests = append(requests, delay)
		}
	}
	differs := func(policy string) {
		observe(chain.Observation{Binding: policy, Shadow: true, Difference: &chain.Difference{Name: clock.Now().String()}})
	}
	latest := func() []policyv1alpha1.Difference {
		differences, again := d.Latest()
		if again > 0 {
			requests = append(requests, again)
		}
		return differences["p"]
	}
	shadow := func(version string) []plan.Outcome {
		policy := &policyv1alpha1.OffloadingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
		return []plan.Outcome{{Policy: policy, Bound: &plan.Bound{Version: version, Shadow: true}}}
	}
	d.Keep(shadow("1"))
	observe(chain.Observation{Binding: "p"})
	observe(chain.Observation{Binding: "p", Shadow: true})
	differs("another")
	assert.Empty(t, requests, "only differences of policies in mode Shadow are reported")

	for range 100 {
		differs("p")
	}
	assert.Equal(t, []time.Duration{gatherPeriod}, requests, "one report for all")
	first := latest()
	assert.Len(t, first, maxDifferences)

	clock.SetTime(clock.Now().Add(20 * time.Second))
	differs("p")
	assert.Equal(t, []time.Duration{gatherPeriod, 40 * time.Second}, requests)
	clock.SetTime(clock.Now().Add(30 * time.Second))
	assert.Equal(t, first, latest(), "the minute is not over")
	assert.Equal(t, 10*time.Second, requests[2], "an early report requests another one")
	clock.SetTime(clock.Now().Add(10 * time.Second))
	assert.NotEqual(t, first, latest())

	clock.SetTime(clock.Now().Add(time.Hour))
	latest()
	assert.Len(t, requests, 3, "no difference, no request")
	differs("p")
	assert.Equal(t, gatherPeriod, requests[3], "soon, after a quiet minute")
	d.Keep(shadow("2"))
	assert.Empty(t, latest(), "another version")
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
