package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func drain(q *queue) []string {
	var out []string
	for q.Len() > 0 {
		key, _ := q.Get()
		out = append(out, key.Name)
		q.Done(key)
	}
	return out
}

func TestQueueLanes(t *testing.T) {
	key := func(name string) Key { return Key{Namespace: "ns", Name: name} }
	tests := map[string]struct {
		fill func(q *queue)
		want []string
	}{
		"one lane is first in, first out": {
			fill: func(q *queue) { q.Add(key("a")); q.Add(key("b")) },
			want: []string{"a", "b"},
		},
		"urgent keys overtake": {
			fill: func(q *queue) { q.Add(key("a")); q.Add(key("b")); q.AddUrgent(key("c")) },
			want: []string{"c", "a", "b"},
		},
		"a queued key becomes urgent, and is handled once": {
			fill: func(q *queue) { q.Add(key("a")); q.Add(key("b")); q.AddUrgent(key("b")) },
			want: []string{"b", "a"},
		},
		"an urgent key is urgent only once": {
			fill: func(q *queue) {
				q.AddUrgent(key("a"))
				q.AddUrgent(key("a"))
				drain(q)
				q.Add(key("b"))
				q.Add(key("a"))
			},
			want: []string{"b", "a"},
		},
		"an urgent key stays urgent": {
			fill: func(q *queue) { q.Add(key("a")); q.AddUrgent(key("b")); q.Add(key("b")) },
			want: []string{"b", "a"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			q := newQueue("test", time.Now)
			t.Cleanup(q.ShutDown)
			tc.fill(q)
			assert.Equal(t, tc.want, drain(q))
			assert.Empty(t, q.lanes.hints, "nothing is left of keys that are done")
			assert.Empty(t, q.lanes.queued)
		})
	}
}

func TestQueueUrgentKeysDoNotStarveTheOthers(t *testing.T) {
	q := newQueue("test", time.Now)
	t.Cleanup(q.ShutDown)
	q.Add(Key{Name: "patient"})
	for i := range 100 {
		q.AddUrgent(Key{Name: fmt.Sprint(i)})
	}
	got := drain(q)
	assert.Len(t, got, 101)
	assert.Contains(t, got[:normalEvery], "patient")
}

func TestQueueAKeyIsHandledByOneWorkerAtATime(t *testing.T) {
	q := newQueue("test", time.Now)
	t.Cleanup(q.ShutDown)
	key := Key{Name: "a"}
	q.Add(key)
	got, _ := q.Get()
	q.AddUrgent(key)
	assert.Zero(t, q.Len(), "not offered while it is being handled")
	q.Done(got)
	assert.Equal(t, []string{"a"}, drain(q))
}
