package chain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/longshore-dev/longshore/host/kit/plaintext"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/operation"
)

// buffers hold requests while they are encoded.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// Evaluate calls the policies that are bound to a point. It is safe for concurrent use and
// uses one set of bindings from beginning to end.
//
// Errors: [ErrNotLoaded]; a [*PolicyError] if a policy with failure policy Fail gave no
// valid answer; the context's error. A denial is not an error but the result's Denial.
func (c *Chains) Evaluate(ctx context.Context, in Input) (*Result, error) {
	s, err := c.acquire()
	if err != nil {
		return nil, err
	}
	defer c.release(s)
	result := &Result{Object: in.Object}
	for _, l := range s.chains[in.Point] {
		if !l.isCalledAt(in.Moment) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("calling policy %q: %w", l.Name, err)
		}
		before := result.Object
		if l.Mode == Shadow {
			c.observeShadow(ctx, l, in, before, before)
			continue
		}
		if err := c.enforce(ctx, l, in, result); err != nil {
			return nil, err
		}
		if result.Denial != nil {
			break
		}
		if l.shadow != nil && l.shadow.isCalledAt(in.Moment) {
			c.observeShadow(ctx, l.shadow, in, before, result.Object)
		}
	}
	return result, nil
}

// enforce calls one policy and adds its outcome, or what its failure policy demands, to the
// result.
func (c *Chains) enforce(ctx context.Context, l *link, in Input, result *Result) error {
	o := c.attempt(ctx, l, in, result.Object)
	seen := l.observation(in, o)
	if o.err == nil {
		if o.answered {
			result.add(l.decision(in), o)
			c.observe(seen)
		}
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("calling policy %q: %w", l.Name, ctx.Err())
	}
	failure := l.policyError(in, o.err)
	seen.fail(failure)
	switch {
	case l.FailurePolicy == Ignore:
		seen.Outcome = Skipped
		c.observe(seen)
		decision := l.decision(in)
		decision.Ignored = truncate(o.err.Error())
		result.add(decision, outcome{warnings: []string{failure.Error()}})
		return nil
	case l.FailurePolicy == LastGood && l.fallback != nil && failure.Class != Host:
		return c.enforceFallback(ctx, l.fallback, in, result, seen, failure)
	default:
		c.observe(seen)
		return failure
	}
}

// enforceFallback calls the previous version of a policy whose failure was seen.
func (c *Chains) enforceFallback(ctx context.Context, previous *link, in Input, result *Result, seen Observation, failure *PolicyError) error {
	var o outcome
	if previous.isCalledAt(in.Moment) {
		o = c.attempt(ctx, previous, in, result.Object)
	}
	decision := previous.decision(in)
	if o.err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("calling policy %q: %w", previous.Name, ctx.Err())
		}
		c.observe(seen)
		failure.Err = fmt.Errorf("%w; its previous version (%s) failed too: %w", failure.Err, ShortDigest(decision.Digest), o.err)
		return failure
	}
	seen.Outcome, seen.Changed = FellBack, len(o.effects) > 0
	c.observe(seen)
	decision.FellBack = failure.Error()
	o.warnings = append(o.warnings, fmt.Sprintf("%s; its previous version (%s) was used instead", failure, ShortDigest(decision.Digest)))
	result.add(decision, o)
	return nil
}

// outcome is what came of one policy and one object. It is zero if the binding does not match
// the object.
type outcome struct {
	// answered reports that the policy gave a valid answer, and err why it gave none.
	answered bool
	err      error
	// denial is set if the policy denied or skipped the object, else change may be.
	denial *Denied
	change
	// warnings for the user.
	warnings []string
	// cached reports that the answer was cached, and stats describe the call if it was not.
	cached bool
	stats  engine.Stats
	// probe reports that the call decides whether a quarantine ends.
	probe    bool
	duration time.Duration
}

// change is what a policy did to an object.
type change struct {
	// object afterwards; only set with effects.
	object  map[string]any
	effects []operation.Effect
	// kept are the paths of reserved keys that the policy tried to change.
	kept []string
}

// add adds an outcome, and the decision about it.
func (r *Result) add(decision Decision, o outcome) {
	decision.Effects, decision.Kept, decision.Denied = o.effects, o.kept, o.denial != nil
	r.Decisions = append(r.Decisions, decision)
	r.Warnings = append(r.Warnings, o.warnings...)
	r.Denial = o.denial
	if len(o.effects) > 0 {
		r.Object, r.Changed = o.object, true
	}
}

// attempt lets a policy decide, measures that, and counts its success or failure.
func (c *Chains) attempt(ctx context.Context, l *link, in Input, object map[string]any) outcome {
	start := c.now()
	o := c.decide(ctx, l, in, object)
	end := c.now()
	o.duration = end.Sub(start)
	c.recordHealth(l, in.Match.Namespace, o, end)
	return o
}

// recordHealth counts a success or a failure of the policy's version.
func (c *Chains) recordHealth(l *link, namespace string, o outcome, now time.Time) {
	changed := false
	switch class := classOf(o.err); {
	case o.answered:
		changed = l.health.recordSuccess(o.cached)
	case o.err == nil: // not called
	case countsAgainstPolicy(class):
		changed = l.health.recordFailure(now, failedCall{namespace: namespace, probe: o.probe, class: class, err: o.err})
	case o.probe:
		l.health.cancelProbe(namespace)
	}
	if changed && c.options.HealthChanged != nil {
		c.options.HealthChanged()
	}
}

// decide matches the object, gets the policy's answer and applies it.
func (c *Chains) decide(ctx context.Context, l *link, in Input, object map[string]any) outcome {
	if l.Match != nil {
		attributes := in.Match
		attributes.Object = in.Object
		matches, err := l.Match.Matches(ctx, attributes)
		if err != nil {
			return outcome{err: &classError{class: Host, err: fmt.Errorf("matching the object: %w", err)}}
		}
		if !matches {
			return outcome{}
		}
	}
	if l.Unavailable != nil {
		return outcome{err: &classError{class: Unavailable, err: l.Unavailable}}
	}
	got, o := c.answer(ctx, l, in, object)
	if o.err != nil {
		return o
	}
	if o.denial = l.denial(got); o.denial == nil {
		if o.change, o.err = c.apply(l, in, object, got.operations); o.err != nil {
			return o
		}
	}
	o.answered = true
	for _, path := range o.kept {
		o.warnings = append(o.warnings, fmt.Sprintf("policy %q tried to change the reserved key %s; the change was dropped", l.Name, path))
	}
	for _, warning := range got.warnings {
		o.warnings = append(o.warnings, fmt.Sprintf("policy %q: %s", l.Name, warning))
	}
	return o
}

// answer returns the policy's answer about an object, from the cache or from a call, and how
// it was got or why there is none.
func (c *Chains) answer(ctx context.Context, l *link, in Input, object map[string]any) (*answer, outcome) {
	prefix, ok := l.prefixes[in.Moment]
	if !ok {
		return nil, outcome{err: &classError{class: Host, err: fmt.Errorf("unknown moment %q", in.Moment)}}
	}
	buffer, ok := buffers.Get().(*[]byte)
	if !ok {
		return nil, outcome{err: errors.New("the pool of buffers has a value of another type")}
	}
	defer buffers.Put(buffer)
	request, err := l.reads.appendFacts(append((*buffer)[:0], prefix...), object, in.Facts)
	if err != nil {
		return nil, outcome{err: &classError{class: Host, err: err}}
	}
	request = append(request, '}')
	*buffer = request[:0]
	if len(request) > l.maximum.RequestBytes {
		return nil, outcome{err: &classError{class: TooLarge, err: fmt.Errorf("the facts that the policy reads have %d bytes as JSON, more than %d", len(request), l.maximum.RequestBytes)}}
	}
	key := c.memo.key(l, request)
	if cached := c.memo.get(key, l, request); cached != nil {
		return cached, outcome{cached: true}
	}
	// A quarantine stops calls only: cached answers stay valid.
	probe, err := l.health.admit(c.now, in.Match.Namespace)
	if err != nil {
		return nil, outcome{err: &classError{class: Quarantined, err: err}}
	}
	request = bytes.Clone(request) // the buffer is reused
	got, err := l.call(ctx, request)
	if err != nil {
		return nil, outcome{err: err, probe: probe}
	}
	c.memo.put(key, l, request, got)
	return got, outcome{probe: probe, stats: got.stats}
}

// apply applies a policy's operations to an object and checks the result.
func (c *Chains) apply(l *link, in Input, object map[string]any, operations []operation.Operation) (change, error) {
	if err := checkWrites(in.Writes, operations); err != nil {
		return change{}, err
	}
	changed, effects, err := operation.Apply(object, operations)
	if err != nil {
		class := engine.BadOutput
		if errors.Is(err, operation.ErrTooLarge) {
			class = TooLarge
		}
		return change{}, &classError{class: class, err: fmt.Errorf("applying the answer: %w", err)}
	}
	changed, kept, err := c.restoreReservedKeys(object, changed, effects)
	if err != nil {
		return change{}, &classError{class: engine.BadOutput, err: err}
	}
	effects = withoutKeys(effects, kept)
	if err := c.checkGuardedKeys(l, object, changed, effects); err != nil {
		return change{}, &classError{class: Undeclared, err: err}
	}
	if len(effects) > 0 && in.Check != nil {
		if err := in.Check(object, changed); err != nil {
			return change{}, &classError{class: engine.BadOutput, err: fmt.Errorf("checking the changed object: %w", err)}
		}
	}
	for i, path := range kept {
		kept[i] = plaintext.Within(path, maxKeptBytes)
	}
	return change{object: changed, effects: effects, kept: kept}, nil
}

// maxKeptBytes bounds the path of a reserved key. No valid key is longer.
const maxKeptBytes = 512

// denial returns the denial or the skip of an answer, nil if it has none.
func (l *link) denial(got *answer) *Denied {
	if got.deny == nil && got.skip == nil {
		return nil
	}
	denied := &Denied{Policy: l.Name, Module: l.Policy.Name(), Digest: l.Policy.Digest()}
	if got.deny != nil {
		denied.Reason, denied.Message = got.deny.Reason, got.deny.Message
	} else {
		denied.Reason, denied.Message, denied.Skip = got.skip.Reason, got.skip.Message, true
	}
	return denied
}

// checkWrites checks operations against the rules of the object's kind.
func checkWrites(writes operation.Rules, operations []operation.Operation) error {
	if writes == nil {
		return nil
	}
	for i := range operations {
		if err := writes.Check(&operations[i]); err != nil {
			return &classError{class: Undeclared, err: fmt.Errorf("operation %d is outside of what policies may write of an object of this kind: %w", i, err)}
		}
	}
	return nil
}

// decision returns the decision about an outcome of the link's policy, without the outcome.
func (l *link) decision(in Input) Decision {
	return Decision{Point: in.Point, Moment: in.Moment, Binding: l.Name, Module: l.Policy.Name(), Digest: l.Policy.Digest()}
}

// observation describes an outcome of the link's policy that is not a failure.
func (l *link) observation(in Input, o outcome) Observation {
	seen := Observation{
		Point: in.Point, Moment: in.Moment, Binding: l.Name, Module: l.Policy.Name(), Digest: l.Policy.Digest(),
		Outcome: Answered, Changed: len(o.effects) > 0, Stats: o.stats, Duration: o.duration,
	}
	switch {
	case o.denial != nil:
		seen.Outcome = Refused
	case o.cached:
		seen.Outcome = Remembered
	}
	return seen
}

// fail makes the observation one of a failure.
func (o *Observation) fail(failure *PolicyError) {
	o.Err, o.Class, o.Outcome = failure, failure.Class, Failed
}

// policyError returns an error of the link's policy.
func (l *link) policyError(in Input, err error) *PolicyError {
	return &PolicyError{
		Point: in.Point, Moment: in.Moment, Binding: l.Name,
		Module: l.Policy.Name(), Digest: l.Policy.Digest(), Class: classOf(err), Err: err,
		SettingsChecked: l.checksSettings(),
	}
}

func (c *Chains) now() time.Time {
	if c.options.Clock == nil {
		return time.Time{}
	}
	return c.options.Clock()
}

func (c *Chains) observe(o Observation) {
	if c.options.Observer != nil {
		c.options.Observer.Observe(o)
	}
}
