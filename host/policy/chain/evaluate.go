package chain

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/longshore-dev/longshore/host/policy/engine"
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
		before := result.Object
		if l.Mode == Shadow {
			c.shadow(ctx, l, in, before, before)
			continue
		}
		if err := c.consult(ctx, l, in, result); err != nil {
			return nil, err
		}
		if result.Denial != nil {
			break
		}
		if l.shadowed != nil && l.shadowed.at(in.Moment) {
			c.shadow(ctx, l.shadowed, in, before, result.Object)
		}
	}
	return result, nil
}

// consult asks one policy and puts what it decides into the result.
func (c *Chains) consult(ctx context.Context, l *link, in Input, result *Result) error {
	asked := c.attempt(ctx, l, in, result)
	if asked.err != nil && ctx.Err() != nil {
		return fmt.Errorf("asking policy %q: %w", l.Name, ctx.Err())
	}
	if asked.err == nil {
		if asked.concerned {
			result.Decisions = append(result.Decisions, asked.decision)
			c.observe(asked.seen)
		}
		return nil
	}
	failure := l.failure(in, asked.err)
	asked.seen.Err, asked.seen.Class, asked.seen.Outcome = failure, failure.Class, Failed
	switch {
	case l.FailurePolicy == Ignore:
		asked.seen.Outcome = Skipped
		c.observe(asked.seen)
		asked.decision.Effects, asked.decision.Kept, asked.decision.Ignored = nil, nil, bounded(asked.err.Error())
		result.Decisions = append(result.Decisions, asked.decision)
		result.Warnings = append(result.Warnings, failure.Error())
		return nil
	case l.FailurePolicy == LastGood && l.fallback != nil && failure.Class != Host:
		return c.fallBack(ctx, l, in, result, asked.seen, failure)
	default:
		c.observe(asked.seen)
		return failure
	}
}

// fallBack asks the previous version in place of one that failed.
func (c *Chains) fallBack(ctx context.Context, l *link, in Input, result *Result, seen Observation, failure *PolicyError) error {
	var again attempt
	if l.fallback.at(in.Moment) {
		again = c.attempt(ctx, l.fallback, in, result)
	}
	if again.err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("asking policy %q: %w", l.Name, ctx.Err())
		}
		c.observe(seen)
		failure.Err = fmt.Errorf("%w; its previous version (%s) failed too: %w", failure.Err, ShortDigest(l.fallback.Policy.Digest()), again.err)
		return failure
	}
	seen.Outcome, seen.Changed = FellBack, again.seen.Changed
	c.observe(seen)
	decision := again.decision
	decision.Point, decision.Moment, decision.Binding = in.Point, in.Moment, l.Name
	decision.Module, decision.Digest = l.fallback.Policy.Name(), l.fallback.Policy.Digest()
	decision.FellBack = failure.Error()
	result.Decisions = append(result.Decisions, decision)
	result.Warnings = append(result.Warnings, fmt.Sprintf("%s; its previous version (%s) decided instead", failure, ShortDigest(decision.Digest)))
	return nil
}

// failure is an error of this link's policy for those who asked.
func (l *link) failure(in Input, err error) *PolicyError {
	return &PolicyError{
		Point: in.Point, Moment: in.Moment, Binding: l.Name,
		Module: l.Policy.Name(), Digest: l.Policy.Digest(), Class: classOf(err), Err: err,
	}
}

// attempt is one question to a policy, and what came of it.
type attempt struct {
	decision Decision
	seen     Observation
	// concerned is false when the binding does not concern the object.
	concerned bool
	// source of the answer, or of the error.
	source source
	// probe tells that the call decides about the end of a quarantine.
	probe bool
	err   error
}

// attempt asks a policy. On error the result is as before.
func (c *Chains) attempt(ctx context.Context, l *link, in Input, result *Result) attempt {
	a := attempt{
		decision: Decision{
			Point: in.Point, Moment: in.Moment, Binding: l.Name,
			Module: l.Policy.Name(), Digest: l.Policy.Digest(),
		},
		seen: Observation{Point: in.Point, Moment: in.Moment, Binding: l.Name, Outcome: Answered},
	}
	a.seen.Module, a.seen.Digest = a.decision.Module, a.decision.Digest
	began := c.now()
	a.err = c.decide(ctx, l, in, result, &a)
	ended := c.now()
	a.seen.Duration = ended.Sub(began)
	c.judge(l, in.Match.Namespace, &a, ended)
	return a
}

// judge keeps the health of the policy's version; the owner is the object's namespace.
func (c *Chains) judge(l *link, owner string, a *attempt, now time.Time) {
	news := false
	switch class := classOf(a.err); {
	case a.err == nil && a.concerned:
		news = l.health.succeed(a.source == fromCall)
	case a.err == nil, a.source == fromOther && !a.concerned:
		// Not asked; or the failure is that of another question's call, which counts it.
	case blamed(class):
		news = l.health.fail(now, failed{owner: owner, probe: a.probe, class: class, err: a.err})
	case a.probe:
		l.health.undecided(owner)
	}
	if news && c.options.HealthChanged != nil {
		c.options.HealthChanged()
	}
}

// decide asks and applies the answer.
func (c *Chains) decide(ctx context.Context, l *link, in Input, result *Result, a *attempt) error {
	if l.Match != nil {
		attributes := in.Match
		attributes.Object = in.Object
		concerns, err := l.Match.Matches(ctx, attributes)
		if err != nil {
			return &fault{class: Host, err: fmt.Errorf("matching the object: %w", err)}
		}
		if !concerns {
			return nil
		}
	}
	if l.Unavailable != nil {
		return &fault{class: Unavailable, err: l.Unavailable}
	}
	got, err := c.request(ctx, l, in, result.Object, a)
	if err != nil {
		return err
	}
	a.concerned = true
	decision := &a.decision
	if a.seen.Stats = got.stats; a.source != fromCall {
		a.seen.Outcome = Remembered
		a.seen.Stats = zeroStats
	}
	if denied := l.denied(got); denied != nil {
		decision.Denied = true
		a.seen.Outcome = Refused
		result.Denial = denied
		c.warn(l, got, result)
		return nil
	}
	if err := c.applyAnswer(l, in, got.operations, result, a); err != nil {
		return err
	}
	c.warn(l, got, result)
	return nil
}

// applyAnswer applies a policy's operations to the object, and checks what they make of it.
// An error leaves the object as it was.
func (c *Chains) applyAnswer(l *link, in Input, operations []operation.Operation, result *Result, a *attempt) error {
	if err := within(in.Writes, operations); err != nil {
		return err
	}
	decision := &a.decision
	changed, effects, err := operation.Apply(result.Object, operations)
	if err != nil {
		class := engine.BadOutput
		if errors.Is(err, operation.ErrTooLarge) {
			class = TooLarge
		}
		return &fault{class: class, err: fmt.Errorf("applying the answer: %w", err)}
	}
	changed, decision.Kept, err = c.protect(result.Object, changed, effects)
	if err != nil {
		return &fault{class: engine.BadOutput, err: err}
	}
	effects = withoutKept(effects, decision.Kept)
	if err := c.guard(l, result.Object, changed, effects); err != nil {
		decision.Kept = nil
		return &fault{class: Undeclared, err: err}
	}
	for i, path := range decision.Kept {
		path = engine.PlainWithin(path, maxKeptBytes)
		decision.Kept[i] = path
		result.Warnings = append(result.Warnings, fmt.Sprintf("policy %q tried to change %s, which is reserved: it stays as it was", l.Name, path))
	}
	if len(effects) > 0 && in.Check != nil {
		if err := in.Check(result.Object, changed); err != nil {
			decision.Kept = nil
			return &fault{class: engine.BadOutput, err: fmt.Errorf("checking the object that the answer makes: %w", err)}
		}
	}
	decision.Effects = effects
	if len(effects) > 0 {
		result.Object = changed
		result.Changed, a.seen.Changed = true, true
	}
	return nil
}

// denied returns the refusal or the skip of an answer, nil when it is neither.
func (l *link) denied(got *answer) *Denied {
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

// within checks operations against what the object lets policies write, if it says so.
func within(writes operation.Rules, operations []operation.Operation) error {
	if writes == nil {
		return nil
	}
	for i := range operations {
		if err := writes.Check(&operations[i]); err != nil {
			return &fault{class: Undeclared, err: fmt.Errorf("operation %d is outside of what policies may write of an object of this kind: %w", i, err)}
		}
	}
	return nil
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
func (c *Chains) request(ctx context.Context, l *link, in Input, object map[string]any, a *attempt) (*answer, error) {
	prefix, ok := l.prefixes[in.Moment]
	if !ok {
		return nil, &fault{class: Host, err: fmt.Errorf("unknown moment %q", in.Moment)}
	}
	buffer, ok := buffers.Get().(*[]byte)
	if !ok {
		return nil, errors.New("the pool of buffers holds something else")
	}
	defer buffers.Put(buffer)
	request, err := l.reads.appendFacts(append((*buffer)[:0], prefix...), object, in.Facts)
	if err != nil {
		return nil, &fault{class: Host, err: err}
	}
	request = append(request, '}')
	*buffer = request[:0]
	if len(request) > l.maximum.RequestBytes {
		return nil, &fault{class: TooLarge, err: fmt.Errorf("what the policy reads of the object has %d bytes as JSON, more than %d", len(request), l.maximum.RequestBytes)}
	}
	key := c.memo.key(l, request)
	if found := c.memo.get(key, l, request); found != nil {
		a.source = fromMemo
		return found, nil
	}
	var got *answer
	got, a.source, err = c.memo.call(ctx, key, l, request, func(request []byte) (found *answer, err error) {
		// What is remembered is an answer all the same; only calls are for the healthy.
		if a.probe, err = l.health.admit(c.now, in.Match.Namespace); err != nil {
			return nil, &fault{class: Quarantined, err: err}
		}
		return l.ask(ctx, request)
	})
	return got, err
}

// maxKeptBytes bounds the path of a key that was put back, longer than any key may be.
const maxKeptBytes = 512

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
