package policysource

import (
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/kit/events"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/view"
)

const (
	// maxDifferences is what is kept of a Shadow policy's differences, and
	// maxDifferenceOperations of the operations of one.
	maxDifferences          = 10
	maxDifferenceOperations = 16
	// maxOperationBytes bounds the text of an operation: map keys come from objects.
	maxOperationBytes = 256
	// gather is how long a report waits for what else happens.
	gather = time.Second
)

// tally counts for the status what the policies do. It asks for a report when there is
// something to say: a second after the first question of a while, then once a period.
// While no policy is asked, nothing happens.
type tally struct {
	clock  clock.PassiveClock
	period time.Duration
	report func(after time.Duration)
	// armed tells that a report has been asked for.
	armed atomic.Bool

	mu       sync.RWMutex
	policies map[string]*count
	// reported is when counters were last written.
	reported time.Time
}

// count is what one version of a policy has done.
type count struct {
	version string
	// shadow tells that only questions without effect are its own: a shadow may bear the
	// name of a default that goes on.
	shadow bool

	calls, changes, denials, errors atomic.Int64

	mu          sync.Mutex
	differences []policyv1alpha1.Difference
	// written are the counters that status has from us.
	written policyv1alpha1.Counters
}

func newTally(clock clock.PassiveClock, period time.Duration, report func(time.Duration)) *tally {
	return &tally{clock: clock, period: period, report: report, policies: map[string]*count{}}
}

// keep makes the versions of these policies counted, by name, and no others; those in
// shadows as what has no effect.
func (t *tally) keep(versions map[string]string, shadows map[string]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name := range t.policies {
		if _, stays := versions[name]; !stays {
			delete(t.policies, name)
		}
	}
	for name, version := range versions {
		if known := t.policies[name]; known == nil || known.version != version {
			t.policies[name] = &count{version: version, shadow: shadows[name]}
		}
	}
}

func (t *tally) get(name string) *count {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.policies[name]
}

// observe counts a question. Implicit defaults have no status and are not counted.
func (t *tally) observe(o chain.Observation) {
	c := t.get(o.Binding)
	if c == nil || c.shadow != o.Shadow {
		return
	}
	c.calls.Add(1)
	switch {
	case o.Err != nil:
		c.errors.Add(1)
	case o.Outcome == chain.Refused:
		c.denials.Add(1)
	case o.Shadow && o.Difference != nil, !o.Shadow && o.Changed:
		c.changes.Add(1)
	}
	if o.Difference != nil {
		c.add(difference(o, t.clock.Now()))
	}
	if !t.armed.Swap(true) {
		t.report(t.delay())
	}
}

// delay until the next report may be.
func (t *tally) delay() time.Duration {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.reported.IsZero() {
		return gather
	}
	return max(gather, t.reported.Add(t.period).Sub(t.clock.Now()))
}

// due tells whether counters may be written. What is counted from now on wants a report
// of its own; who came too early is asked for again.
func (t *tally) due() bool {
	t.mu.RLock()
	due := t.reported.IsZero() || t.clock.Now().Sub(t.reported) >= t.period
	t.mu.RUnlock()
	switch {
	case due:
		t.armed.Store(false)
	case t.armed.Load():
		t.report(t.delay())
	}
	return due
}

// wrote notes that counters were written.
func (t *tally) wrote() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reported = t.clock.Now()
}

func (c *count) add(d policyv1alpha1.Difference) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.differences = append(c.differences, d)
	if len(c.differences) > maxDifferences {
		c.differences = append(c.differences[:0:0], c.differences[1:]...)
	}
}

// now returns the counters and differences, and whether status has others.
func (c *count) now() (policyv1alpha1.Counters, []policyv1alpha1.Difference, bool) {
	counters := policyv1alpha1.Counters{
		Calls: c.calls.Load(), Changes: c.changes.Load(), Denials: c.denials.Load(), Errors: c.errors.Load(),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return counters, c.differences, counters != c.written
}

// wrote notes what status has now, and tells whether that is other than before.
func (c *count) wrote(counters policyv1alpha1.Counters) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := c.written != counters
	c.written = counters
	return changed
}

// difference is an entry of the record: verbs and paths, no values.
func difference(o chain.Observation, now time.Time) policyv1alpha1.Difference {
	d := policyv1alpha1.Difference{
		Time: metav1.NewTime(now.UTC().Truncate(time.Second)), Point: policyv1alpha1.ExtensionPoint(o.Point),
		Kind: o.Difference.Kind, Namespace: o.Difference.Namespace, Name: o.Difference.Name, Denied: o.Difference.Denied,
	}
	for i := range o.Difference.Effects {
		if i == maxDifferenceOperations {
			d.Omitted = int32(len(o.Difference.Effects) - i)
			break
		}
		d.Operations = append(d.Operations, events.Cut(view.EffectText(&o.Difference.Effects[i]), maxOperationBytes))
	}
	return d
}
