package contest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestContestPause(t *testing.T) {
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for reverts, want := range map[int]time.Duration{0: 0, 1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 12: Max, 1000: Max} {
		c := Contest{}.Wrote(false, begin)
		for range reverts {
			c = c.Wrote(true, begin)
		}
		pause, reported := c.Pause(begin)
		assert.Equal(t, want, pause, reverts)
		assert.Equal(t, reverts >= Reported, reported, reverts)
		pause, _ = c.Pause(begin.Add(want))
		assert.Zero(t, pause, "%d: giving way caches", reverts)
		pause, reported = c.Pause(begin.Add(Calm + time.Second))
		assert.Zero(t, pause, "%d: forgotten after a while", reverts)
		assert.False(t, reported, reverts)
		assert.Zero(t, c.Wrote(false, begin).reverts, "%d: another desired state is not contested", reverts)
	}
}

func TestLastWrite(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	last := LastWrite{}.Wrote("a", now).Wrote("a", now)
	pause, _ := last.Pause("a", now)
	assert.Equal(t, Base, pause)
	pause, _ = last.Pause("b", now)
	assert.Zero(t, pause, "another value does not wait")
	pause, _ = last.Wrote("b", now).Pause("b", now)
	assert.Zero(t, pause)
}
