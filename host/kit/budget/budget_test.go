package budget_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"

	"github.com/longshore-dev/longshore/host/kit/budget"
)

var now = time.Date(2026, 11, 28, 7, 0, 0, 0, time.UTC)

// writes returns how many of some attempts at one moment are writes.
func writes(b *budget.Budget, object *budget.Object, uid types.UID, bytes, attempts int, at time.Time) (written int) {
	for range attempts {
		if b.Take(object, uid, bytes, at) == 0 {
			written++
		}
	}
	return written
}

func TestOneObjectIsWrittenAFewTimes(t *testing.T) {
	b, object := budget.New(), &budget.Object{}
	assert.Equal(t, budget.ObjectBurst, writes(b, object, "web-1", 5<<10, 1_000, now))
	assert.Zero(t, writes(b, object, "web-1", 5<<10, 1_000, now.Add(budget.ObjectInterval/2)))
	wait := b.Take(object, "web-1", 5<<10, now)
	assert.LessOrEqual(t, wait, budget.ObjectInterval+time.Millisecond)
	assert.Equal(t, 1, writes(b, object, "web-1", 5<<10, 1_000, now.Add(wait)), "the newest state is written after the wait")
	hour, total := now.Add(time.Hour), 0
	for at := now.Add(time.Minute); at.Before(hour); at = at.Add(time.Minute) {
		total += writes(b, object, "web-1", 50<<10, 1_000, at)
	}
	assert.LessOrEqual(t, total, int(time.Hour/budget.ObjectInterval))
	assert.Equal(t, budget.ObjectBurst, writes(b, object, "web-2", 5<<10, 1_000, hour), "the next object of the name")
}

// A burst of honest pods does not wait, whatever size their statuses have.
func TestManyPodsThatStartDoNotWait(t *testing.T) {
	b := budget.New()
	for i := range 10_000 {
		assert.Equal(t, 5, writes(b, &budget.Object{}, types.UID(fmt.Sprint(i)), 5<<10, 5, now))
	}
}

// All objects together do not fill etcd: it keeps the versions of five minutes.
func TestAllObjectsTogetherAreBounded(t *testing.T) {
	b := budget.New()
	objects := make([]budget.Object, 1_000)
	kept := 0
	for second := range 300 {
		for i := range objects {
			kept += writes(b, &objects[i], types.UID(fmt.Sprint(i)), 52<<10, 1, now.Add(time.Duration(second)*time.Second))
		}
	}
	assert.LessOrEqual(t, kept*52, 600<<10, "600 MiB")
	assert.Equal(t, budget.ObjectInterval, b.Take(&budget.Object{}, "one more", 52<<10, now.Add(299*time.Second)))
}
