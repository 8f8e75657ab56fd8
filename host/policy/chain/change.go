package chain

import (
	"bytes"
	"context"
	"fmt"
)

// SeesChange reports whether an enforced policy at the point of two inputs, which are an object before and
// after a change, would see the change: its binding matches the object after it, and did not match before or
// what the policy reads of the object differs. Other facts and the failure policy do not count. No policy is
// called. An error, such as [ErrNotLoaded], leaves it open.
func (c *Chains) SeesChange(ctx context.Context, before, after Input) (bool, error) {
	s, err := c.acquire()
	if err != nil {
		return false, err
	}
	defer c.release(s)
	for _, l := range s.chains[after.Point] {
		if l.Mode == Shadow || !l.isCalledAt(after.Moment) {
			continue
		}
		if seen, err := l.seesChange(ctx, before, after); seen || err != nil {
			return seen, err
		}
	}
	return false, nil
}

func (l *link) seesChange(ctx context.Context, before, after Input) (bool, error) {
	if l.Match != nil {
		matched, matches, err := l.matchesBoth(ctx, before, after)
		if err != nil || !matches {
			return false, err
		}
		if !matched {
			return true, nil
		}
	}
	links := []*link{l}
	if l.fallback != nil {
		links = append(links, l.fallback)
	}
	for _, l := range links {
		old, err := l.reads.appendFacts(nil, before.Object, nil)
		if err != nil {
			return false, err
		}
		now, err := l.reads.appendFacts(nil, after.Object, nil)
		if err != nil || !bytes.Equal(old, now) {
			return true, err
		}
	}
	return false, nil
}

// matchesBoth reports whether the binding matches the object before and after a change.
func (l *link) matchesBoth(ctx context.Context, before, after Input) (matched, matches bool, err error) {
	results := [2]bool{}
	for i, in := range []Input{before, after} {
		attributes := in.Match
		attributes.Object = in.Object
		if results[i], err = l.Match.Matches(ctx, attributes); err != nil {
			return false, false, fmt.Errorf("matching the object with policy %q: %w", l.Name, err)
		}
	}
	return results[0], results[1], nil
}
