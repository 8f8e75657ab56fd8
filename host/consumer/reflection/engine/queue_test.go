package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func named(name string) Key { return Key{Namespace: "ns", Name: name} }

// take takes as many keys as there are, one after the other.
func take(q *queue, keys int) []string {
	var out []string
	for range keys {
		key, _ := q.Get()
		out = append(out, key.Name)
		q.Taken(key)
		q.Done(key)
	}
	return out
}

func TestTheOrderOfKeys(t *testing.T) {
	tests := map[string]struct {
		fill func(q *queue)
		want []string
	}{
		"changes on both sides are first in, first out": {
			fill: func(q *queue) { q.Add(named("a")); q.AddTo(laneLocal, named("b")); q.Add(named("c")) },
			want: []string{"a", "b", "c"},
		},
		"the background waits": {
			fill: func(q *queue) {
				q.AddTo(laneBackground, named("resync"))
				q.AddTo(laneRemote, named("a"))
				q.AddTo(laneLocal, named("b"))
			},
			want: []string{"a", "b", "resync"},
		},
		"a key of the background that changes waits no longer, and is handled once": {
			fill: func(q *queue) {
				q.AddTo(laneBackground, named("a"))
				q.AddTo(laneBackground, named("b"))
				q.Add(named("b"))
			},
			want: []string{"b", "a"},
		},
		"a key that changed does not wait for a resync": {
			fill: func(q *queue) { q.Add(named("a")); q.AddTo(laneBackground, named("a")); q.Add(named("b")) },
			want: []string{"a", "b"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			q := newQueue("test", time.Now)
			t.Cleanup(q.ShutDown)
			tc.fill(q)
			require.Equal(t, len(tc.want), q.Len())
			assert.Equal(t, tc.want, take(q, len(tc.want)))
			assert.Empty(t, q.waiting, "nothing is left of keys that are done")
		})
	}
}

func TestAKeyIsHandledByOneWorkerAtATime(t *testing.T) {
	q := newQueue("test", time.Now)
	t.Cleanup(q.ShutDown)
	q.Add(named("a"))
	got, _ := q.Get()
	q.AddTo(laneLocal, named("a"))
	q.Add(named("b"))
	assert.Equal(t, []string{"b"}, take(q, 1), "not offered while it is being handled")
	q.Done(got)
	assert.Equal(t, []string{"a"}, take(q, 1))
}

func TestHowLongAKeyHasWaited(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	q := newQueue("test", func() time.Time { return now })
	t.Cleanup(q.ShutDown)
	begin := now
	q.Add(named("a"))
	now = now.Add(time.Second)
	q.AddTo(laneLocal, named("a"))
	in, since := q.Taken(named("a"))
	assert.Equal(t, laneLocal, in)
	assert.Equal(t, begin, since, "since its first event")
	in, since = q.Taken(named("a"))
	assert.Equal(t, laneRemote, in, "a retry")
	assert.Equal(t, now, since)
}
