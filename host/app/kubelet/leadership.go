package kubelet

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/consumer/election"
)

// maxLinkFailures is how many checks of the provider in a row fail before a leading process lets
// another of its virtual nodes reflect the shared objects.
const maxLinkFailures = 3

// leadership campaigns once for all virtual nodes of a process. While the process leads, one of
// them reflects the shared objects. It is safe for concurrent use.
type leadership struct {
	election *election.Election
	interval time.Duration

	mu      sync.Mutex
	leading bool
	// members are the virtual nodes that have or had a session and run, with the observations of their
	// ResourceReflections. chosen is one of them, or nil.
	members map[*virtualNode][]policyv1alpha1.ReflectionObservation
	chosen  *virtualNode
}

func newLeadership(o *Options, config *rest.Config) (*leadership, error) {
	l := &leadership{interval: o.NodePingInterval, members: map[*virtualNode][]policyv1alpha1.ReflectionObservation{}}
	var err error
	l.election, err = newElection(o, config, l, l.setLeading)
	return l, err
}

// Interval implements election.Link.
func (l *leadership) Interval() time.Duration { return l.interval }

// Failures implements election.Link. It returns the failures of the chosen virtual node. If that
// cannot reach the provider and another one can, it chooses the other one.
func (l *leadership) Failures(ctx context.Context, recheck bool) int {
	l.mu.Lock()
	chosen, leading, members := l.chosen, l.leading, l.sorted()
	l.mu.Unlock()
	if chosen == nil {
		return 1
	}
	failures := chosen.link.Failures(ctx, recheck)
	if failures == 0 || leading && failures < maxLinkFailures {
		return failures
	}
	for _, other := range members {
		if other != chosen && ctx.Err() == nil && other.link.Failures(ctx, recheck) == 0 {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.choose(other)
			return 0
		}
	}
	return failures
}

// sorted returns the members, sorted by name. The caller holds the lock.
func (l *leadership) sorted() []*virtualNode {
	return slices.SortedFunc(maps.Keys(l.members), func(a, b *virtualNode) int { return strings.Compare(a.options.NodeName, b.options.NodeName) })
}

// join adds a virtual node with a session, which it passes the result of the election.
func (l *leadership) join(v *virtualNode) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.members[v]; !known {
		l.members[v] = nil
	}
	if l.chosen == nil {
		l.choose(v)
	}
}

// leave removes a virtual node without a session.
func (l *leadership) leave(v *virtualNode) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.members, v)
	if l.chosen != v {
		return
	}
	l.chosen = nil
	if others := l.sorted(); len(others) > 0 {
		l.choose(others[0])
	}
}

// choose lets a virtual node reflect the shared objects while the process leads. The caller holds
// the lock and v is a member.
func (l *leadership) choose(v *virtualNode) {
	if _, found := l.members[v]; !found || l.chosen == v {
		return
	}
	if l.chosen != nil {
		l.chosen.setLeading(false)
	}
	l.chosen = v
	v.setLeading(l.leading)
	if observations := l.members[v]; observations != nil {
		go v.repeatReport(observations)
	}
}

func (l *leadership) setLeading(leading bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leading = leading
	if l.chosen != nil {
		l.chosen.setLeading(leading)
	}
}

// keepReport stores the observations of a virtual node and reports whether they are to be written.
func (l *leadership) keepReport(v *virtualNode, observations []policyv1alpha1.ReflectionObservation) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.members[v] = observations
	return l.chosen == v
}

// repeatReport writes observations that were not written while another virtual node was chosen.
func (v *virtualNode) repeatReport(observations []policyv1alpha1.ReflectionObservation) {
	ctx, cancel := context.WithTimeout(context.Background(), eventTimeout)
	defer cancel()
	if err := v.writeReflections(ctx, observations); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Reporting ResourceReflections failed", "node", v.options.NodeName)
	}
}
