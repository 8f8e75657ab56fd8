// Package contest slows down the writes of a desired state that another writer changes again and again.
package contest

import "time"

const (
	// Base is the pause after the first revert of a change. It doubles each time.
	Base = time.Second
	// Max is the longest pause.
	Max = 5 * time.Minute
	// Calm is the time without reverts after which counting starts again.
	Calm = 30 * time.Minute
	// Reported is the number of reverts after which an event about the other writer is due.
	Reported = 4
)

// Contest counts how often one desired state had to be written again because another
// writer changed it. The zero value is a count of zero.
type Contest struct {
	reverts int
	// wroteAt is the time of the last write.
	wroteAt time.Time
}

// Wrote returns the contest after a write that succeeded. again reports whether the
// desired state is the same as that of the write before.
func (c Contest) Wrote(again bool, now time.Time) Contest {
	next := Contest{wroteAt: now}
	if again && !c.isCalm(now) {
		next.reverts = c.reverts + 1
	}
	return next
}

// Pause returns how long the next write of the same desired state must wait: zero the first
// time, then longer and longer, up to five minutes. reported is true when an event about
// the other writer is due.
func (c Contest) Pause(now time.Time) (pause time.Duration, reported bool) {
	return c.PauseFrom(Base, now)
}

// PauseFrom is Pause with another pause after the first revert.
func (c Contest) PauseFrom(base time.Duration, now time.Time) (time.Duration, bool) {
	if c.reverts == 0 || c.isCalm(now) {
		return 0, false
	}
	pause := min(base<<min(c.reverts-1, 20), Max)
	return max(pause-now.Sub(c.wroteAt), 0), c.reverts >= Reported
}

func (c Contest) isCalm(now time.Time) bool { return now.Sub(c.wroteAt) > Calm }

// LastWrite is a value that was written, with the contest about it. The zero value is none.
type LastWrite struct {
	value   string
	contest Contest
}

// Wrote returns the last write after one that succeeded.
func (w LastWrite) Wrote(value string, now time.Time) LastWrite {
	return LastWrite{value: value, contest: w.contest.Wrote(w.value == value, now)}
}

// Pause returns how long the next write of a value must wait, as [Contest.Pause] does. A value that is
// not that of the last write does not wait.
func (w LastWrite) Pause(value string, now time.Time) (pause time.Duration, reported bool) {
	if w.value != value {
		return 0, false
	}
	return w.contest.Pause(now)
}
