package report

import (
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/kit/events"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/view"
	"github.com/longshore-dev/longshore/host/policysource/plan"
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
	// reportPeriod is the least time between two reports of differences.
	reportPeriod = time.Minute
)

// Differences keeps the latest differences of policies in mode Shadow. They are reported soon
// after the first one, and then once a minute at most. It is safe for concurrent use.
type Differences struct {
	clock clock.PassiveClock

	mu       sync.Mutex
	policies map[string]*recorded
	// next is when the latest differences may be reported again.
	next time.Time
	// isPending is set while there are differences that have not been reported.
	isPending bool
}

// recorded are the differences of one version of a policy.
type recorded struct {
	version          string
	latest, reported []policyv1alpha1.Difference
}

// NewDifferences returns an empty record.
func NewDifferences(clock clock.PassiveClock) *Differences {
	return &Differences{clock: clock, policies: map[string]*recorded{}}
}

// Keep limits the record to the versions that are bound in mode Shadow.
func (d *Differences) Keep(outcomes []plan.Outcome) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.policies
	d.policies = map[string]*recorded{}
	for i := range outcomes {
		name, bound := outcomes[i].Policy.Name, outcomes[i].Bound
		if bound == nil || !bound.Shadow {
			continue
		}
		d.policies[name] = before[name]
		if before[name] == nil || before[name].version != bound.Version {
			d.policies[name] = &recorded{version: bound.Version}
		}
	}
}

// Observe records a difference. If it is the first one since the last report, Observe returns
// the delay after which the component must report.
func (d *Differences) Observe(o chain.Observation) (delay time.Duration, isFirst bool) {
	if !o.Shadow || o.Difference == nil {
		return 0, false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.policies[o.Binding]
	if r == nil {
		return 0, false
	}
	r.latest = append(r.latest, newDifference(o, d.clock.Now()))
	r.latest = slices.Clone(r.latest[max(0, len(r.latest)-maxDifferences):])
	isFirst, d.isPending = !d.isPending, true
	return max(gatherPeriod, d.next.Sub(d.clock.Now())), isFirst
}

// Latest returns the differences to be reported by policy: the latest ones, or those of the
// last report until the minute is over. Then it also returns when to report again, if needed.
func (d *Differences) Latest() (differences map[string][]policyv1alpha1.Difference, again time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if wait := d.next.Sub(d.clock.Now()); d.isPending && wait > 0 {
		again = wait
	} else if d.isPending {
		d.isPending, d.next = false, d.clock.Now().Add(reportPeriod)
		for _, r := range d.policies {
			r.reported = r.latest
		}
	}
	differences = map[string][]policyv1alpha1.Difference{}
	for name, r := range d.policies {
		differences[name] = r.reported
	}
	return differences, again
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
