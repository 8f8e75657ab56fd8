package suite

import (
	"context"
	"errors"
	"fmt"

	"github.com/longshore-dev/longshore/conformance/trial"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/module"
)

// AskGolden asks a module the golden questions of a point, as a component in a cluster does, with the settings and
// the permissions of a binding. It returns a [module.Refusal] with the first answer that no component would use, or
// if the module answers none of the questions. What the answers mean is not tested.
func AskGolden(ctx context.Context, loaded *module.Module, binding chain.Binding) error {
	r := &run{options: &Options{}, settings: []pointSettings{{binding.Point, binding.Settings}}}
	questions, err := r.vectorQuestions(loaded.Manifest().For(binding.Point))
	if err != nil {
		return err
	}
	binding.Policy = loaded
	asked, err := trial.New(binding)
	if err != nil {
		return fmt.Errorf("asking the golden questions of %s: %w", binding.Point, err)
	}
	var reported error
	answered := false
	for _, q := range questions {
		problem, isRefused, err := askGolden(ctx, asked, q)
		switch {
		case err != nil:
			return err
		case isRefused:
			reported = problem
		case problem != nil:
			return &module.Refusal{Err: fmt.Errorf("golden question %q: %w", q.name, problem)}
		default:
			answered = true
		}
	}
	if !answered && reported != nil {
		return &module.Refusal{Err: fmt.Errorf("the module answers none of the %d golden questions of %s: %w", len(questions), binding.Point, reported)}
	}
	return nil
}

// askGolden returns what is wrong with an answer, and whether the module reported an error instead of one, which it
// may. The last error is not the module's.
func askGolden(ctx context.Context, asked *trial.Trial, q *question) (problem error, isRefused bool, err error) {
	answer, askErr := asked.Ask(ctx, q.ask())
	rule, err := faultOf(askErr, q, answer.Call.Answer)
	switch {
	case rule == "" && err != nil:
		return nil, false, err
	case rule != "":
		return reasonOf(askErr), rule == refused, nil
	default:
		return trial.CheckInvariants(q.ask(), answer.Result), false, nil
	}
}

// reasonOf returns the reason of a failure without the OffloadingPolicy, which there is none of.
func reasonOf(err error) error {
	if failure, ok := errors.AsType[*chain.PolicyError](err); ok {
		return fmt.Errorf("module %s gave no valid answer: %s", failure.Module, failure.Reason())
	}
	return err
}
