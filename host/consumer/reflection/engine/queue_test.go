package engine

import (
	"fmt"
	"slices"
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

func named(name string) Key { return Key{Namespace: "ns", Name: name} }

func TestQueueLanes(t *testing.T) {
	tests := map[string]struct {
		fill func(q *queue)
		want []string
	}{
		"one lane is first in, first out": {
			fill: func(q *queue) { q.Add(named("a")); q.Add(named("b")) },
			want: []string{"a", "b"},
		},
		"the local lane overtakes": {
			fill: func(q *queue) { q.Add(named("a")); q.Add(named("b")); q.AddTo(laneLocal, named("c")) },
			want: []string{"c", "a", "b"},
		},
		"the local and the remote lane take turns": {
			fill: func(q *queue) {
				for _, name := range []string{"1", "2", "3"} {
					q.AddTo(laneLocal, named("local-"+name))
					q.AddTo(laneRemote, named("remote-"+name))
				}
			},
			want: []string{"local-1", "remote-1", "local-2", "remote-2", "local-3", "remote-3"},
		},
		"the background waits behind both": {
			fill: func(q *queue) {
				q.AddTo(laneBackground, named("resync"))
				q.AddTo(laneRemote, named("a"))
				q.AddTo(laneRemote, named("b"))
				q.AddTo(laneLocal, named("c"))
			},
			want: []string{"c", "a", "b", "resync"},
		},
		"a queued key moves to a better lane, and is handled once": {
			fill: func(q *queue) { q.Add(named("a")); q.Add(named("b")); q.AddTo(laneLocal, named("b")) },
			want: []string{"b", "a"},
		},
		"a key of the background that changes moves": {
			fill: func(q *queue) {
				q.AddTo(laneBackground, named("a"))
				q.AddTo(laneBackground, named("b"))
				q.Add(named("b"))
			},
			want: []string{"b", "a"},
		},
		"a key does not stay in its lane": {
			fill: func(q *queue) {
				q.AddTo(laneLocal, named("a"))
				q.AddTo(laneLocal, named("a"))
				drain(q)
				q.Add(named("b"))
				q.Add(named("a"))
			},
			want: []string{"b", "a"},
		},
		"a key does not move to a worse lane": {
			fill: func(q *queue) { q.Add(named("a")); q.AddTo(laneLocal, named("b")); q.AddTo(laneBackground, named("b")) },
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

func TestABurstDelaysNoLane(t *testing.T) {
	const burst = 1000
	tests := map[string]struct {
		in       lane
		position int
	}{
		"a status that comes back": {laneRemote, 2},
		"a resync":                 {laneBackground, backgroundEvery},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			q := newQueue("test", time.Now)
			t.Cleanup(q.ShutDown)
			for i := range burst {
				q.AddTo(laneLocal, named(fmt.Sprint(i)))
			}
			q.AddTo(tc.in, named("waits"))
			got := drain(q)
			assert.Len(t, got, burst+1)
			assert.Less(t, slices.Index(got, "waits"), tc.position)
		})
	}
}

func TestQueueAKeyIsHandledByOneWorkerAtATime(t *testing.T) {
	q := newQueue("test", time.Now)
	t.Cleanup(q.ShutDown)
	key := named("a")
	q.Add(key)
	got, _ := q.Get()
	q.AddTo(laneLocal, key)
	assert.Zero(t, q.Len(), "not offered while it is being handled")
	q.Done(got)
	assert.Equal(t, []string{"a"}, drain(q))
}

func TestAQueueIsBusyUntilItsKeysAreDone(t *testing.T) {
	q := newQueue("test", time.Now)
	t.Cleanup(q.ShutDown)
	assert.False(t, q.isBusy())
	q.Add(named("a"))
	assert.True(t, q.isBusy(), "with a key that waits")
	key, _ := q.Get()
	assert.True(t, q.isBusy(), "with a key that a worker has")
	q.Done(key)
	assert.False(t, q.isBusy())
}
