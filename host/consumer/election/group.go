package election

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Member is a virtual node of a process that campaigns once for all its virtual nodes.
type Member interface {
	comparable
	// Name is the name of the virtual node.
	Name() string
	// Failures is that of the virtual node's [Link].
	Failures(ctx context.Context, recheck bool) int
	// SetLeading is called when the virtual node becomes (true), or is no longer (false), the one that
	// reflects the shared objects. It must not call the Group.
	SetLeading(leading bool)
	// Chosen is called on a goroutine of its own when the virtual node is chosen.
	Chosen()
}

// Group chooses the virtual node that reflects the shared objects while the process leads. It is the
// Link of the process's Election, and its SetLeading is OnChange. It is safe for concurrent use.
type Group[M Member] struct {
	interval time.Duration

	mu      sync.Mutex
	leading bool
	members map[M]struct{}
	// chosen is a member if hasChosen.
	chosen    M
	hasChosen bool
}

// NewGroup returns a Group without members. The interval is that of the checks of the provider.
func NewGroup[M Member](interval time.Duration) *Group[M] {
	return &Group[M]{interval: interval, members: map[M]struct{}{}}
}

// Interval implements Link.
func (g *Group[M]) Interval() time.Duration { return g.interval }

// Failures implements Link. It returns the failures of the chosen member, or 1 without members. If the
// chosen one cannot reach the provider and another one can, it chooses the other one.
func (g *Group[M]) Failures(ctx context.Context, recheck bool) int {
	g.mu.Lock()
	chosen, hasChosen, leading, members := g.chosen, g.hasChosen, g.leading, g.sorted()
	g.mu.Unlock()
	if !hasChosen {
		return 1
	}
	failures := chosen.Failures(ctx, recheck)
	if failures == 0 || leading && failures < maxFailures {
		return failures
	}
	for _, other := range members {
		if other != chosen && ctx.Err() == nil && other.Failures(ctx, recheck) == 0 {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.choose(other)
			return 0
		}
	}
	return failures
}

// sorted returns the members, sorted by name. The caller holds the lock.
func (g *Group[M]) sorted() []M {
	return slices.SortedFunc(maps.Keys(g.members), func(a, b M) int { return strings.Compare(a.Name(), b.Name()) })
}

// Join adds a virtual node.
func (g *Group[M]) Join(member M) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.members[member] = struct{}{}
	if !g.hasChosen {
		g.choose(member)
	}
}

// Leave removes a virtual node. Its SetLeading is not called.
func (g *Group[M]) Leave(member M) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.members, member)
	if !g.hasChosen || g.chosen != member {
		return
	}
	g.hasChosen = false
	if others := g.sorted(); len(others) > 0 {
		g.choose(others[0])
	}
}

// choose lets a virtual node reflect the shared objects while the process leads, unless it has left.
// The caller holds the lock.
func (g *Group[M]) choose(member M) {
	if _, found := g.members[member]; !found || g.hasChosen && g.chosen == member {
		return
	}
	if g.hasChosen {
		g.chosen.SetLeading(false)
	}
	g.chosen, g.hasChosen = member, true
	member.SetLeading(g.leading)
	go member.Chosen()
}

// SetLeading passes the result of the Election to the chosen member.
func (g *Group[M]) SetLeading(leading bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leading = leading
	if g.hasChosen {
		g.chosen.SetLeading(leading)
	}
}

// IsChosen reports whether a virtual node is chosen, whether the process leads or not.
func (g *Group[M]) IsChosen(member M) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.hasChosen && g.chosen == member
}
