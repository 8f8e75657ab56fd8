package election

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// member is a virtual node with a number of failed checks.
type member struct {
	name     string
	failures int
	leading  bool
	chosen   chan string
}

func (m *member) Name() string                       { return m.name }
func (m *member) Failures(context.Context, bool) int { return m.failures }
func (m *member) SetLeading(leading bool)            { m.leading = leading }
func (m *member) Chosen()                            { m.chosen <- m.name }

// nodes are the virtual nodes of a process.
type nodes struct {
	group   *Group[*member]
	a, b, c *member
}

var groupTests = map[string]struct {
	steps func(nodes)
	// failures is what the Election sees.
	failures int
	// leading is the member that reflects the shared objects, "" for none.
	leading string
	chosen  []string
}{
	"without members, the process does not campaign": {
		steps: func(nodes) {}, failures: 1,
	},
	"the first member is chosen, and leads when the process does": {
		steps:   func(n nodes) { n.group.Join(n.b); n.group.Join(n.a); n.group.SetLeading(true) },
		leading: "b", chosen: []string{"b"},
	},
	"a member that joins again stays what it was": {
		steps:   func(n nodes) { n.group.Join(n.b); n.group.Join(n.a); n.group.SetLeading(true); n.group.Join(n.b) },
		leading: "b", chosen: []string{"b"},
	},
	"a candidate hands over at the first failure": {
		steps: func(n nodes) {
			n.group.Join(n.a)
			n.group.Join(n.b)
			n.a.failures = 1
			n.group.Failures(context.Background(), false)
			n.group.SetLeading(true)
		},
		leading: "b", chosen: []string{"a", "b"},
	},
	"a leader stays for fewer failures than the limit": {
		steps: func(n nodes) {
			n.group.Join(n.a)
			n.group.Join(n.b)
			n.group.SetLeading(true)
			n.a.failures = maxFailures - 1
		},
		failures: maxFailures - 1, leading: "a", chosen: []string{"a"},
	},
	"a leader hands over at the limit, to the first by name that reaches the provider": {
		steps: func(n nodes) {
			n.group.Join(n.a)
			n.group.Join(n.c)
			n.group.Join(n.b)
			n.group.SetLeading(true)
			n.a.failures, n.b.failures = maxFailures, 1
		},
		leading: "c", chosen: []string{"a", "c"},
	},
	"an outage that all members see moves nothing": {
		steps: func(n nodes) {
			n.group.Join(n.a)
			n.group.Join(n.b)
			n.group.SetLeading(true)
			n.a.failures, n.b.failures = maxFailures, maxFailures
		},
		failures: maxFailures, leading: "a", chosen: []string{"a"},
	},
	"the first by name follows one that leaves": {
		steps: func(n nodes) {
			n.group.Join(n.c)
			n.group.Join(n.b)
			n.group.Join(n.a)
			n.group.SetLeading(true)
			n.c.leading = false // it has no session any more
			n.group.Leave(n.c)
		},
		leading: "a", chosen: []string{"c", "a"},
	},
	"after the last one has left, the next that joins leads": {
		steps: func(n nodes) {
			n.group.Join(n.a)
			n.group.SetLeading(true)
			n.a.leading = false
			n.group.Leave(n.a)
			n.group.Join(n.b)
		},
		leading: "b", chosen: []string{"a", "b"},
	},
	"a process that loses the election has no leading member": {
		steps:  func(n nodes) { n.group.Join(n.a); n.group.SetLeading(true); n.group.SetLeading(false) },
		chosen: []string{"a"},
	},
}

func TestAGroupChoosesOneMember(t *testing.T) {
	t.Parallel()
	for name, test := range groupTests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			chosen := make(chan string, 4)
			n := nodes{
				group: NewGroup[*member](time.Second),
				a:     &member{name: "a", chosen: chosen}, b: &member{name: "b", chosen: chosen}, c: &member{name: "c", chosen: chosen},
			}
			test.steps(n)
			assert.Equal(t, test.failures, n.group.Failures(t.Context(), false))
			leading := ""
			for _, m := range []*member{n.a, n.b, n.c} {
				if m.leading {
					assert.Empty(t, leading, "one member leads")
					leading = m.name
					assert.True(t, n.group.IsChosen(m))
				}
			}
			assert.Equal(t, test.leading, leading)
			var names []string
			for range test.chosen {
				names = append(names, <-chosen)
			}
			assert.ElementsMatch(t, test.chosen, names)
			assert.Empty(t, chosen)
		})
	}
}
