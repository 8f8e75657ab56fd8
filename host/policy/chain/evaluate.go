package chain

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/longshore-dev/longshore/host/policy/operation"
)

// buffers hold requests while they are being built.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// Evaluate asks the policies that are bound to a point. It is safe for concurrent
// use and sees one set of bindings from beginning to end.
//
// Errors: [ErrNotLoaded]; a [*PolicyError] when a policy with failure policy Fail
// gave no valid answer; the context's error. A refusal is no error but the result's
// Denial.
func (c *Chains) Evaluate(ctx context.Context, in Input) (*Result, error) {
	s, err := c.acquire()
	if err != nil {
		return nil, err
	}
	defer c.release(s)
	result := &Result{Object: in.Object}
	for _, l := range s.chains[in.Point] {
		if !l.at(in.Moment) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("asking policy %q: %w", l.Name, err)
		}
		if err := c.consult(ctx, l, in, result); err != nil {
			return nil, err
		}
		if result.Denial != nil {
			break
		}
	}
	return result, nil
}

// consult asks one policy and puts what it decides into the result.
func (c *Chains) consult(ctx context.Context, l *link, in Input, result *Result) error {
	decision := Decision{
		Point: in.Point, Moment: in.Moment, Binding: l.Name,
		Module: l.Policy.Name(), Digest: l.Policy.Digest(),
	}
	seen := Observation{
		Point: in.Point, Moment: in.Moment, Binding: l.Name,
		Module: decision.Module, Digest: decision.Digest, Outcome: Answered,
	}
	began := c.now()
	asked, err := c.decide(ctx, l, in, result, &decision, &seen)
	seen.Duration = c.now().Sub(began)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("asking policy %q: %w", l.Name, ctx.Err())
	}
	if err == nil && !asked {
		return nil
	}
	if err == nil {
		result.Decisions = append(result.Decisions, decision)
		c.observe(seen)
		return nil
	}
	failure := &PolicyError{
		Point: in.Point, Moment: in.Moment, Binding: l.Name,
		Module: decision.Module, Digest: decision.Digest, Err: err,
	}
	seen.Err, seen.Outcome = failure, Failed
	if l.FailurePolicy != Ignore {
		c.observe(seen)
		return failure
	}
	seen.Outcome = Skipped
	c.observe(seen)
	decision.Effects, decision.Kept, decision.Ignored = nil, nil, err.Error()
	result.Decisions = append(result.Decisions, decision)
	result.Warnings = append(result.Warnings, failure.Error())
	return nil
}

// decide is false when the binding does not concern the object. On error the result
// is as before.
func (c *Chains) decide(ctx context.Context, l *link, in Input, result *Result, decision *Decision, seen *Observation) (bool, error) {
	if l.Match != nil {
		concerns, err := l.Match.Matches(ctx, in.Match)
		if err != nil {
			return true, fmt.Errorf("matching the object: %w", err)
		}
		if !concerns {
			return false, nil
		}
	}
	a, remembered, err := c.request(ctx, l, in, result.Object)
	if err != nil {
		return true, err
	}
	if seen.Stats = a.stats; remembered {
		seen.Outcome = Remembered
		seen.Stats = zeroStats
	}
	if a.deny != nil {
		decision.Denied = true
		seen.Outcome = Refused
		result.Denial = &Denied{Policy: l.Name, Module: decision.Module, Reason: a.deny.Reason, Message: a.deny.Message}
		c.warn(l, a, result)
		return true, nil
	}
	changed, effects, err := operation.Apply(result.Object, a.operations)
	if err != nil {
		return true, fmt.Errorf("applying the answer: %w", err)
	}
	changed, decision.Kept, err = c.protect(result.Object, changed, effects)
	if err != nil {
		return true, err
	}
	for _, path := range decision.Kept {
		result.Warnings = append(result.Warnings, fmt.Sprintf("policy %q tried to change %s, which is reserved: it stays as it was", l.Name, path))
	}
	effects = withoutKept(effects, decision.Kept)
	decision.Effects = effects
	if len(effects) > 0 {
		result.Object = changed
		result.Changed, seen.Changed = true, true
	}
	c.warn(l, a, result)
	return true, nil
}

func (c *Chains) warn(l *link, a *answer, result *Result) {
	for _, warning := range a.warnings {
		result.Warnings = append(result.Warnings, fmt.Sprintf("policy %q: %s", l.Name, warning))
	}
}

func (c *Chains) now() time.Time {
	if c.options.Clock == nil {
		return time.Time{}
	}
	return c.options.Clock()
}

func (c *Chains) observe(seen Observation) {
	if c.options.Observer != nil {
		c.options.Observer.Observe(seen)
	}
}

// request encodes the question and gets its answer.
func (c *Chains) request(ctx context.Context, l *link, in Input, object map[string]any) (*answer, bool, error) {
	prefix, ok := l.prefixes[in.Moment]
	if !ok {
		return nil, false, fmt.Errorf("unknown moment %q", in.Moment)
	}
	buffer, ok := buffers.Get().(*[]byte)
	if !ok {
		return nil, false, errors.New("the pool of buffers holds something else")
	}
	defer buffers.Put(buffer)
	request, err := l.reads.appendFacts(append((*buffer)[:0], prefix...), object, in.Facts)
	if err != nil {
		return nil, false, err
	}
	request = append(request, '}')
	*buffer = request[:0]
	if len(request) > l.maximum.RequestBytes {
		return nil, false, fmt.Errorf("the request has %d bytes, more than %d: declare fewer reads", len(request), l.maximum.RequestBytes)
	}
	return c.memo.do(ctx, l, request, l.ask)
}

// protect puts reserved label and annotation keys back as they were before a policy
// (T40) and returns the paths of those it had to.
func (c *Chains) protect(before, after map[string]any, effects []operation.Effect) (map[string]any, []string, error) {
	touched := false
	for i := range effects {
		touched = touched || strings.HasPrefix(effects[i].Path, "/metadata")
	}
	if c.options.ReservedKey == nil || !touched {
		return after, nil, nil
	}
	var kept []string
	for _, field := range []string{"labels", "annotations"} {
		restored, keys, err := c.restore(metadataMap(before, field), metadataMap(after, field))
		if err != nil {
			return nil, nil, fmt.Errorf("reading metadata.%s: %w", field, err)
		}
		if len(keys) == 0 {
			continue
		}
		for _, key := range keys {
			kept = append(kept, "/metadata/"+field+"/"+operation.EscapeToken(key))
		}
		after = withMember(after, "metadata", withMember(object(after["metadata"]), field, restored))
	}
	return after, kept, nil
}

// restore returns the map after with the reserved keys of before, and those keys.
func (c *Chains) restore(before, after any) (map[string]any, []string, error) {
	old, err := operation.Normalize(before)
	if err != nil {
		return nil, nil, err
	}
	now, err := operation.Normalize(after)
	if err != nil {
		return nil, nil, err
	}
	if _, ok := now.(map[string]any); now != nil && !ok {
		return nil, nil, fmt.Errorf("found a %T where an object is expected", now)
	}
	restored := object(now)
	var keys []string
	for key, value := range object(old) {
		if c.options.ReservedKey(key) && !operation.Equal(restored[key], value) {
			keys = append(keys, key)
			restored = withMember(restored, key, value)
		}
	}
	for key := range object(now) {
		if _, had := object(old)[key]; !had && c.options.ReservedKey(key) {
			keys = append(keys, key)
			restored = withMember(restored, key, nil)
		}
	}
	return restored, sorted(keys), nil
}
