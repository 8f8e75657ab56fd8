package chain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

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

// enforce calls one policy and adds its answer, or what its failure policy demands, to the
// result.
func (c *Chains) enforce(ctx context.Context, l *link, in Input, result *Result) error {
	a := c.attempt(ctx, l, in, result)
	if a.err == nil {
		if a.matched {
			result.Decisions = append(result.Decisions, a.decision)
			c.observe(a.observation)
		}
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("calling policy %q: %w", l.Name, ctx.Err())
	}
	failure := l.policyError(in, a.err)
	a.observation.Err, a.observation.Class, a.observation.Outcome = failure, failure.Class, Failed
	switch {
	case l.FailurePolicy == Ignore:
		a.observation.Outcome = Skipped
		c.observe(a.observation)
		a.decision.Effects, a.decision.Kept, a.decision.Ignored = nil, nil, truncate(a.err.Error())
		result.Decisions = append(result.Decisions, a.decision)
		result.Warnings = append(result.Warnings, failure.Error())
		return nil
	case l.FailurePolicy == LastGood && l.fallback != nil && failure.Class != Host:
		return c.enforceFallback(ctx, l, in, result, a.observation, failure)
	default:
		c.observe(a.observation)
		return failure
	}
}

// enforceFallback calls the previous version of a policy that failed.
func (c *Chains) enforceFallback(ctx context.Context, l *link, in Input, result *Result, o Observation, failure *PolicyError) error {
	var a attempt
	if l.fallback.isCalledAt(in.Moment) {
		a = c.attempt(ctx, l.fallback, in, result)
	}
	if a.err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("calling policy %q: %w", l.Name, ctx.Err())
		}
		c.observe(o)
		failure.Err = fmt.Errorf("%w; its previous version (%s) failed too: %w", failure.Err, ShortDigest(l.fallback.Policy.Digest()), a.err)
		return failure
	}
	o.Outcome, o.Changed = FellBack, a.observation.Changed
	c.observe(o)
	decision := a.decision
	decision.Point, decision.Moment, decision.Binding = in.Point, in.Moment, l.Name
	decision.Module, decision.Digest = l.fallback.Policy.Name(), l.fallback.Policy.Digest()
	decision.FellBack = failure.Error()
	result.Decisions = append(result.Decisions, decision)
	result.Warnings = append(result.Warnings, fmt.Sprintf("%s; its previous version (%s) was used instead", failure, ShortDigest(decision.Digest)))
	return nil
}

// attempt is one call of a policy, or a cached answer, and its outcome.
type attempt struct {
	decision    Decision
	observation Observation
	// matched is false if the binding does not match the object.
	matched bool
	// cached reports that the answer was cached.
	cached bool
	// probe reports that the call decides whether a quarantine ends.
	probe bool
	err   error
}

// attempt calls a policy. On error the result is unchanged.
func (c *Chains) attempt(ctx context.Context, l *link, in Input, result *Result) attempt {
	a := attempt{
		decision: Decision{
			Point: in.Point, Moment: in.Moment, Binding: l.Name,
			Module: l.Policy.Name(), Digest: l.Policy.Digest(),
		},
		observation: Observation{Point: in.Point, Moment: in.Moment, Binding: l.Name, Outcome: Answered},
	}
	a.observation.Module, a.observation.Digest = a.decision.Module, a.decision.Digest
	start := c.now()
	a.err = c.decide(ctx, l, in, result, &a)
	end := c.now()
	a.observation.Duration = end.Sub(start)
	c.recordHealth(l, in.Match.Namespace, &a, end)
	return a
}

// recordHealth counts a success or a failure of the policy's version.
func (c *Chains) recordHealth(l *link, namespace string, a *attempt, now time.Time) {
	changed := false
	switch class := classOf(a.err); {
	case a.err == nil && a.matched:
		changed = l.health.recordSuccess(a.cached)
	case a.err == nil: // not called
	case countsAgainstPolicy(class):
		changed = l.health.recordFailure(now, failedCall{namespace: namespace, probe: a.probe, class: class, err: a.err})
	case a.probe:
		l.health.cancelProbe(namespace)
	}
	if changed && c.options.HealthChanged != nil {
		c.options.HealthChanged()
	}
}

// decide matches the object, gets the policy's answer and applies it.
func (c *Chains) decide(ctx context.Context, l *link, in Input, result *Result, a *attempt) error {
	if l.Match != nil {
		attributes := in.Match
		attributes.Object = in.Object
		matches, err := l.Match.Matches(ctx, attributes)
		if err != nil {
			return &classError{class: Host, err: fmt.Errorf("matching the object: %w", err)}
		}
		if !matches {
			return nil
		}
	}
	if l.Unavailable != nil {
		return &classError{class: Unavailable, err: l.Unavailable}
	}
	got, err := c.answer(ctx, l, in, result.Object, a)
	if err != nil {
		return err
	}
	a.matched = true
	if a.cached {
		a.observation.Outcome = Remembered
	} else {
		a.observation.Stats = got.stats
	}
	if denial := l.denial(got); denial != nil {
		a.decision.Denied = true
		a.observation.Outcome = Refused
		result.Denial = denial
	} else if err := c.applyAnswer(l, in, got.operations, result, a); err != nil {
		return err
	}
	for _, warning := range got.warnings {
		result.Warnings = append(result.Warnings, fmt.Sprintf("policy %q: %s", l.Name, warning))
	}
	return nil
}

// answer returns the policy's answer about an object, from the cache or from a call.
func (c *Chains) answer(ctx context.Context, l *link, in Input, object map[string]any, a *attempt) (*answer, error) {
	prefix, ok := l.prefixes[in.Moment]
	if !ok {
		return nil, &classError{class: Host, err: fmt.Errorf("unknown moment %q", in.Moment)}
	}
	buffer, ok := buffers.Get().(*[]byte)
	if !ok {
		return nil, errors.New("the pool of buffers has a value of another type")
	}
	defer buffers.Put(buffer)
	request, err := l.reads.appendFacts(append((*buffer)[:0], prefix...), object, in.Facts)
	if err != nil {
		return nil, &classError{class: Host, err: err}
	}
	request = append(request, '}')
	*buffer = request[:0]
	if len(request) > l.maximum.RequestBytes {
		return nil, &classError{class: TooLarge, err: fmt.Errorf("the facts that the policy reads have %d bytes as JSON, more than %d", len(request), l.maximum.RequestBytes)}
	}
	key := c.memo.key(l, request)
	if cached := c.memo.get(key, l, request); cached != nil {
		a.cached = true
		return cached, nil
	}
	// A quarantine stops calls only: cached answers stay valid.
	if a.probe, err = l.health.admit(c.now, in.Match.Namespace); err != nil {
		return nil, &classError{class: Quarantined, err: err}
	}
	request = bytes.Clone(request) // the buffer is reused
	got, err := l.call(ctx, request)
	if err != nil {
		return nil, err
	}
	c.memo.put(key, l, request, got)
	return got, nil
}

// applyAnswer applies a policy's operations to the object and checks the result. On error
// the result is unchanged.
func (c *Chains) applyAnswer(l *link, in Input, operations []operation.Operation, result *Result, a *attempt) error {
	if err := checkWrites(in.Writes, operations); err != nil {
		return err
	}
	changed, effects, err := operation.Apply(result.Object, operations)
	if err != nil {
		class := engine.BadOutput
		if errors.Is(err, operation.ErrTooLarge) {
			class = TooLarge
		}
		return &classError{class: class, err: fmt.Errorf("applying the answer: %w", err)}
	}
	changed, kept, err := c.restoreReservedKeys(result.Object, changed, effects)
	if err != nil {
		return &classError{class: engine.BadOutput, err: err}
	}
	effects = withoutKeys(effects, kept)
	if err := c.checkGuardedKeys(l, result.Object, changed, effects); err != nil {
		return &classError{class: Undeclared, err: err}
	}
	if len(effects) > 0 && in.Check != nil {
		if err := in.Check(result.Object, changed); err != nil {
			return &classError{class: engine.BadOutput, err: fmt.Errorf("checking the changed object: %w", err)}
		}
	}
	for i, path := range kept {
		kept[i] = engine.PlainWithin(path, maxKeptBytes)
		result.Warnings = append(result.Warnings, fmt.Sprintf("policy %q tried to change the reserved key %s; the change was dropped", l.Name, kept[i]))
	}
	a.decision.Kept, a.decision.Effects = kept, effects
	if len(effects) > 0 {
		result.Object = changed
		result.Changed, a.observation.Changed = true, true
	}
	return nil
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
