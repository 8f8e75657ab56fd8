package suite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/longshore-dev/longshore/conformance/trial"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/document"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/operation"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// outcome is the result of a question for one rule.
type outcome struct {
	rule string
	err  error
}

// asked is a question with what came of it.
type asked struct {
	*question
	call trial.Call
	// err is the module's own refusal.
	err error
	// answered is set if the module gave a valid answer.
	answered bool
}

// point asks all questions of a point.
func (r *run) point(ctx context.Context, declared *contract.PointManifest) error {
	questions, err := r.questions(declared)
	if err != nil {
		return err
	}
	feature := string(declared.Point)
	all := make([]*asked, 0, len(questions))
	for _, q := range questions {
		outcomes, a, err := r.evaluate(ctx, q)
		if err != nil {
			return err
		}
		all = append(all, a)
		for _, o := range outcomes {
			if o.err == nil {
				r.add(o.rule, feature, q.name, nil, nil)
				continue
			}
			r.addSmall(ctx, o, q)
		}
	}
	r.given(feature, all)
	r.shuffled(ctx, feature, all)
	r.budget(declared.Point, all)
	return r.abuse(ctx, declared, all)
}

// given wants an answer to any of the questions.
func (r *run) given(feature string, all []*asked) {
	var problem error
	var last []byte
	if !slices.ContainsFunc(all, func(a *asked) bool { return a.answered }) {
		for _, a := range all {
			if a.err != nil {
				problem, last = fmt.Errorf("none of %d requests has an answer; one error: %w", len(all), a.err), a.call.Request
			}
		}
	}
	r.add(ruleAnswers, feature, "any request", problem, last)
}

// shuffled asks the questions again in another order.
func (r *run) shuffled(ctx context.Context, feature string, all []*asked) {
	for _, a := range slices.Backward(all) {
		if a.call.Request == nil {
			continue
		}
		again, err := r.hosts.ours.Call(ctx, a.point.Export(), a.call.Request)
		if a.answered || a.err != nil {
			r.add(ruleSame, feature, a.name+", asked after others", differ(a.call.Answer, a.err, again, err), a.call.Request)
		}
	}
}

// trial binds the module at the question's point with its settings.
func (r *run) trial(q *question) (*trial.Trial, error) {
	binding := chain.Binding{Policy: r.hosts.ours.module, Point: q.point, Settings: q.settings, BuiltIn: r.options.BuiltIn}
	t, err := trial.New(binding)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", q.name, err)
	}
	return t, nil
}

// evaluate asks a question, and checks the answer and what it makes of the object. The error
// is not the module's.
func (r *run) evaluate(ctx context.Context, q *question) ([]outcome, *asked, error) {
	t, err := r.trial(q)
	if err != nil {
		return nil, nil, err
	}
	first, err := t.Ask(ctx, q.ask())
	a := &asked{question: q, call: first.Call}
	rule, err := faultOf(err, q, first.Call.Answer)
	switch {
	case err != nil && rule == "":
		return nil, nil, err
	case rule == refused:
		a.err = err
	case err != nil:
		return []outcome{{rule, err}}, a, nil
	}
	outcomes := []outcome{{ruleCompletes, nil}}
	if first.Call.Request == nil {
		return outcomes, a, nil // the host found it too large
	}
	a.answered = a.err == nil
	outcomes = append(outcomes, outcome{ruleSame, r.same(ctx, a)}, outcome{ruleUnread, r.unread(ctx, a)})
	if a.err != nil {
		return outcomes, a, nil
	}
	for _, passed := range []string{ruleValid, ruleWrites, ruleApplies, ruleObject} {
		outcomes = append(outcomes, outcome{passed, nil})
	}
	if first.Result.Denial != nil {
		return outcomes, a, nil
	}
	outcomes = append(outcomes,
		outcome{ruleIsolation, trial.CheckInvariants(q.ask(), first.Result)},
		outcome{ruleIdempotent, idempotent(ctx, t, q, first.Result)},
		outcome{ruleUnknown, unknownFields(ctx, t, q, first.Result)})
	return outcomes, a, nil
}

// refused stands for the rule of an error that is not a fault: the module reported it, or the
// host found the object too large.
const refused = "refused"

// faultOf returns the rule that an error of the chain breaks, "" with an error that is not the
// module's.
func faultOf(err error, q *question, answer []byte) (string, error) {
	if err == nil {
		return "", nil
	}
	failure, ok := errors.AsType[*chain.PolicyError](err)
	if !ok {
		return "", fmt.Errorf("asking %s: %w", q.name, err)
	}
	cause := failure.Err
	switch failure.Class {
	case engine.Guest, chain.TooLarge:
		return refused, cause
	case chain.Undeclared:
		return ruleWrites, cause
	case chain.Host:
		return "", fmt.Errorf("asking %s: %w", q.name, err)
	case engine.BadOutput:
		switch _, isObject := errors.AsType[*trial.ObjectError](err); {
		case isObject:
			return ruleObject, cause
		case isApplied(q, answer):
			return ruleValid, cause
		default:
			return ruleApplies, cause
		}
	default:
		return ruleCompletes, fmt.Errorf("%s: %w", string(failure.Class), cause)
	}
}

// isApplied reports whether it is not the application of the operations that failed.
func isApplied(q *question, answer []byte) bool {
	var response contract.Response
	if json.Unmarshal(answer, &response) != nil {
		return true
	}
	operations, err := operation.Compile(response.Operations)
	if err != nil {
		return true
	}
	_, _, err = operation.Apply(q.ask().Object, operations)
	return err == nil
}

// same asks again, in a used and in a fresh instance and in stock Extism. A module may keep
// what it learned, because the host resets its memory: only a fresh instance of stock Extism
// counts.
func (r *run) same(ctx context.Context, a *asked) error {
	export, request := a.point.Export(), a.call.Request
	for _, host := range []Host{r.hosts.ours, r.hosts.fresh} {
		again, err := host.Call(ctx, export, request)
		if problem := differ(a.call.Answer, a.err, again, err); problem != nil {
			return problem
		}
	}
	stock, err := r.hosts.stock.Call(ctx, export, request)
	if differ(a.call.Answer, a.err, stock, err) == nil {
		return nil
	}
	if err := r.hosts.stock.renew(ctx); err != nil {
		return err
	}
	stock, err = r.hosts.stock.Call(ctx, export, request)
	if problem := differ(a.call.Answer, a.err, stock, err); problem != nil {
		return fmt.Errorf("in stock Extism: %w", problem)
	}
	return nil
}

// unread asks with facts that the manifest does not declare.
func (r *run) unread(ctx context.Context, a *asked) error {
	all, err := a.request()
	if err != nil || len(all) > contract.MaxRequestBytes {
		return err
	}
	answer, err := r.hosts.ours.Call(ctx, a.point.Export(), all)
	if problem := differ(a.call.Answer, a.err, answer, err); problem != nil {
		return fmt.Errorf("with the declared facts, and then with all: %w", problem)
	}
	return nil
}

// differ compares two answers to one question.
func differ(first []byte, firstErr error, second []byte, secondErr error) error {
	switch {
	case firstErr != nil && secondErr != nil:
		return nil
	case firstErr != nil || secondErr != nil:
		return fmt.Errorf("answered %q with error %v, then %q with error %v", first, firstErr, second, secondErr) //nolint:errorlint // One of the two is nil.
	case !bytes.Equal(first, second):
		return fmt.Errorf("answered %s, then %s", first, second)
	default:
		return nil
	}
}

// idempotent asks about the changed object.
func idempotent(ctx context.Context, t *trial.Trial, q *question, first *chain.Result) error {
	if !first.Changed {
		return nil
	}
	again, err := t.Ask(ctx, q.withObject(first.Object).ask())
	if err != nil {
		return fmt.Errorf("about the changed object: %w", err)
	}
	if again.Result.Denial != nil {
		return fmt.Errorf("denies the object that it changed: %s", again.Result.Denial.Message)
	}
	return sameObject(first.Object, again.Result.Object)
}

// sameObject returns an error with the difference of two objects.
func sameObject(once, twice map[string]any) error {
	if document.Equal(once, twice) {
		return nil
	}
	before, beforeErr := json.Marshal(once)
	after, afterErr := json.Marshal(twice)
	if err := errors.Join(beforeErr, afterErr); err != nil {
		return fmt.Errorf("encoding the changed object: %w", err)
	}
	return fmt.Errorf("made %s of the object, and %s of that", before, after)
}

// budget compares what ordinary requests took with the rule, and records it.
func (r *run) budget(point contract.Point, all []*asked) {
	var fuel, memory []uint64
	for _, a := range all {
		if a.answered || a.err != nil {
			fuel, memory = append(fuel, a.call.Stats.Ticks), append(memory, a.call.Stats.MemoryBytes)
		}
	}
	if len(fuel) == 0 {
		return
	}
	figures := Figures{
		Point: point, Requests: len(fuel),
		Fuel: distribution(fuel, contract.DefaultFuel), Memory: distribution(memory, contract.DefaultMemoryBytes),
	}
	r.report.Figures = append(r.report.Figures, figures)
	var problems []error
	check := func(what string, value, limit uint64) {
		if value > limit {
			problems = append(problems, fmt.Errorf("%s is %d, more than %d", what, value, limit))
		}
	}
	check("the median of fuel", figures.Fuel.P50, contract.DefaultFuel/10)
	check("the 99th percentile of fuel", figures.Fuel.P99, contract.DefaultFuel/2)
	check("the 99th percentile of memory", figures.Memory.P99, contract.DefaultMemoryBytes/2)
	r.add(ruleBudget, string(point), "ordinary requests", errors.Join(problems...), nil)
}
