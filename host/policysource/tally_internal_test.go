package policysource

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/operation"
)

func TestReportsAreAskedForWhenThereIsSomethingToSay(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	var asked []time.Duration
	tally := newTally(clock, time.Minute, func(after time.Duration) { asked = append(asked, after) })
	tally.observe(chain.Observation{Binding: "default-podplacement"})
	assert.Empty(t, asked, "a default without an object has no status")

	tally.keep(map[string]string{"p": "1"}, nil)
	for range 100 {
		tally.observe(chain.Observation{Binding: "p"})
	}
	assert.Equal(t, []time.Duration{gather}, asked, "one report tells of all")
	assert.True(t, tally.due())
	assert.True(t, tally.due(), "nothing was written yet")
	tally.wrote()
	assert.False(t, tally.due(), "once a minute")

	clock.SetTime(clock.Now().Add(20 * time.Second))
	tally.observe(chain.Observation{Binding: "p"})
	assert.Equal(t, []time.Duration{gather, 40 * time.Second}, asked)
	clock.SetTime(clock.Now().Add(39 * time.Second))
	assert.False(t, tally.due())
	assert.Equal(t, []time.Duration{gather, 40 * time.Second, gather}, asked, "a report that comes too early is not the last")
	clock.SetTime(clock.Now().Add(time.Second))
	assert.True(t, tally.due())
	tally.wrote()
	clock.SetTime(clock.Now().Add(time.Hour))
	assert.Len(t, asked, 3, "nothing happens while nothing happens")
	tally.observe(chain.Observation{Binding: "p"})
	assert.Equal(t, gather, asked[3], "after a quiet while the news come soon")

	tally.observe(chain.Observation{Binding: "p", Shadow: true})
	counters, _, _ := tally.get("p").now()
	assert.Equal(t, int64(102), counters.Calls, "a shadow of the same name is another policy")
	tally.keep(map[string]string{"q": "1"}, nil)
	assert.Nil(t, tally.get("p"))
}

func TestADifferenceIsBounded(t *testing.T) {
	var effects []operation.Effect
	for range 20 {
		effects = append(effects, operation.Effect{Verb: "merge", Path: "/metadata/labels", Keys: []string{strings.Repeat("k", 1000)}})
	}
	d := difference(chain.Observation{Difference: &chain.Difference{Effects: effects}}, time.Time{})
	assert.Len(t, d.Operations, maxDifferenceOperations)
	assert.Equal(t, int32(4), d.Omitted)
	assert.LessOrEqual(t, len(d.Operations[0]), maxOperationBytes)
}

func TestTextsFitTheirFields(t *testing.T) {
	for name, want := range map[string]string{
		"virtual-kubelet/milan":  "longshore-policies-virtual-kubelet/milan",
		strings.Repeat("x", 200): "longshore-policies-",
	} {
		assert.True(t, strings.HasPrefix(fieldManager(name), want))
		assert.LessOrEqual(t, len(fieldManager(name)), maxManager)
	}
}
