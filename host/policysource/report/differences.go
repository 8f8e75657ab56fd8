package report

import (
	"slices"
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
	// maxDifferences is how many differences of a policy are kept, and
	// maxDifferenceOperations how many operations of each.
	maxDifferences          = 10
	maxDifferenceOperations = 16
	// maxOperationBytes bounds the text of an operation: map keys come from objects.
	maxOperationBytes = 256
	// gatherPeriod is how long a report waits for further differences.
	gatherPeriod = time.Second
)

// Differences keeps the latest differences of policies in mode Shadow. It requests a report
// soon after the first one, and then once a period at most. It is safe for concurrent use.
type Differences struct {
	clock   clock.PassiveClock
	period  time.Duration
	request func(after time.Duration)
	// requested is set from the request of a report until the differences are read for it.
	requested atomic.Bool

	mu       sync.RWMutex
	policies map[string]*recorded
	// read is when the differences were read last.
	read time.Time
}

// recorded are the differences of one version of a policy. Reports have reported until
// the next period begins.
type recorded struct {
	version          string
	latest, reported []policyv1alpha1.Difference
}

// NewDifferences returns an empty record. The function request must not block.
func NewDifferences(clock clock.PassiveClock, period time.Duration, request func(after time.Duration)) *Differences {
	return &Differences{clock: clock, period: period, request: request, policies: map[string]*recorded{}}
}

// Keep limits the record to these policies, whose versions are the values. The differences
// of a policy are dropped when its version changes.
func (d *Differences) Keep(versions map[string]string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, known := range d.policies {
		if versions[name] != known.version {
			delete(d.policies, name)
		}
	}
	for name, version := range versions {
		if d.policies[name] == nil {
			d.policies[name] = &recorded{version: version}
		}
	}
}

// Observe implements chain.Observer.
func (d *Differences) Observe(o chain.Observation) {
	if !o.Shadow || o.Difference == nil || !d.add(o.Binding, newDifference(o, d.clock.Now())) {
		return
	}
	if !d.requested.Swap(true) {
		d.request(d.delay())
	}
}

func (d *Differences) add(policy string, difference policyv1alpha1.Difference) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.policies[policy]
	if r == nil {
		return false
	}
	r.latest = append(r.latest, difference)
	r.latest = slices.Clone(r.latest[max(0, len(r.latest)-maxDifferences):])
	return true
}

func (d *Differences) delay() time.Duration {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return max(gatherPeriod, d.read.Add(d.period).Sub(d.clock.Now()))
}

// Update lets the next reports have the latest differences, if the period since the last
// update is over.
func (d *Differences) Update() {
	if !d.requested.Load() {
		return
	}
	if wait := d.delay(); wait > gatherPeriod {
		d.request(wait)
		return
	}
	d.requested.Store(false)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.read = d.clock.Now()
	for _, r := range d.policies {
		r.reported = r.latest
	}
}

// Of returns the differences of a policy as of the last update.
func (d *Differences) Of(policy string) []policyv1alpha1.Difference {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if r := d.policies[policy]; r != nil {
		return r.reported
	}
	return nil
}

// newDifference has verbs and paths, no values.
func newDifference(o chain.Observation, now time.Time) policyv1alpha1.Difference {
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
