package plan

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/longshore-dev/longshore/host/planner"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/view"
)

// Explanation is what each policy did to the pods of files.
type Explanation struct {
	// Pods in the order of the files.
	Pods []PodExplanation `json:"pods"`
	// Problems are policies that cannot be used as they are.
	Problems []string `json:"policyProblems,omitempty"`
}

// PodExplanation has the evaluations of one pod, in the order of the pod flow.
type PodExplanation struct {
	*planner.Plan `json:",inline"`

	Evaluations []Evaluation `json:"evaluations"`
}

// Evaluation is one evaluation of an extension point.
type Evaluation struct {
	// Point and Moment of the evaluation.
	Point  string `json:"point"`
	Moment string `json:"moment,omitempty"`
	// Kind of the object.
	Kind string `json:"kind,omitempty"`
	// Policies that were called, in order; empty if none is bound or matches.
	Policies []PolicyAnswer `json:"policies,omitempty"`
	// Denied is the reason of a denial, and Error of a failure, each with the role that must act.
	Denied string `json:"denied,omitempty"`
	Error  string `json:"error,omitempty"`
	// Warnings of the policies.
	Warnings []string `json:"warnings,omitempty"`
}

// PolicyAnswer is what one policy did.
type PolicyAnswer struct {
	// Policy by name, and the digest of its module.
	Policy string `json:"policy"`
	Digest string `json:"digest"`
	// Changes are the operations that changed the object, without values.
	Changes []string `json:"changes,omitempty"`
	// Kept are reserved keys that it tried to change, Ignored the error for which it was skipped.
	Kept    []string `json:"kept,omitempty"`
	Ignored string   `json:"ignored,omitempty"`
}

// Explain plans the pods of files one after the other, and records what each policy does.
func Explain(ctx context.Context, options Options) (*Explanation, error) {
	f, fixed, err := load(ctx, options)
	if err != nil {
		return nil, err
	}
	explained, err := explainAll(ctx, f, &recorder{Chains: fixed.Chains})
	if err = errors.Join(err, fixed.Close(ctx)); err != nil {
		return nil, err
	}
	explained.Problems = problems(fixed)
	return explained, nil
}

func explainAll(ctx context.Context, f *facts, r *recorder) (*Explanation, error) {
	core, err := planner.New(f.Facts, r)
	if err != nil {
		return nil, fmt.Errorf("reading the facts: %w", err)
	}
	result := &Explanation{}
	for _, template := range f.templates {
		r.evaluations = nil
		plan, err := core.Plan(ctx, template)
		if err != nil {
			return nil, err
		}
		result.Pods = append(result.Pods, PodExplanation{Plan: plan, Evaluations: r.evaluations})
	}
	return result, nil
}

// recorder are chains that record their evaluations.
type recorder struct {
	*chain.Chains

	mu          sync.Mutex
	evaluations []Evaluation
}

// Evaluate implements view.Evaluator.
func (r *recorder) Evaluate(ctx context.Context, in chain.Input) (*chain.Result, error) {
	result, err := r.Chains.Evaluate(ctx, in)
	e := Evaluation{Point: string(in.Point), Moment: string(in.Moment)}
	e.Kind, _ = in.Object["kind"].(string)
	if err != nil {
		e.Error = err.Error()
	} else {
		e.Warnings = result.Warnings
		for i := range result.Decisions {
			e.Policies = append(e.Policies, answerOf(&result.Decisions[i]))
		}
		if result.Denial != nil {
			e.Denied = result.Denial.Error()
		}
	}
	r.mu.Lock()
	r.evaluations = append(r.evaluations, e)
	r.mu.Unlock()
	return result, err
}

func answerOf(d *chain.Decision) PolicyAnswer {
	a := PolicyAnswer{Policy: d.Binding, Digest: d.Digest, Kept: d.Kept, Ignored: d.Ignored}
	for _, effect := range d.Effects {
		a.Changes = append(a.Changes, view.EffectText(&effect))
	}
	return a
}
