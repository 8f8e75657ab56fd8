// Package trial asks one policy about one object as a component in a cluster does: through a
// chain, with the same bounds, and with checks of the object that the policy changed.
package trial

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/longshore-dev/longshore/host/forge/invariants"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/view"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// ObjectError is the reason why Kubernetes would not accept an object that a policy changed.
// [Trial.Ask] returns it inside a [chain.PolicyError].
type ObjectError struct{ Err error }

// Error implements error.
func (e *ObjectError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *ObjectError) Unwrap() error { return e.Err }

// Trial has one policy bound.
type Trial struct {
	chains  *chain.Chains
	witness *witness
}

// Question is one evaluation.
type Question struct {
	Point  contract.Point
	Moment contract.Moment
	// Object is the JSON form of the object, and Facts are the other members of the facts.
	Object, Facts map[string]any
	// SkipChecks leaves out the checks of the changed object, for objects with fields that
	// Kubernetes does not have.
	SkipChecks bool
}

// Answer is the result of an evaluation.
type Answer struct {
	// Call is the call of the module; its request is empty if the module was not called.
	Call Call
	// Result of the chain; nil if the policy gave no valid answer.
	Result *chain.Result
}

// targets are the types of the objects that a cluster reflects, by kind.
var targets = map[string]runtime.Object{
	"ConfigMap": &corev1.ConfigMap{}, "Secret": &corev1.Secret{}, "Service": &corev1.Service{},
}

// New binds a policy. The binding needs a policy and a point; a missing name is the policy's,
// because there is no OffloadingPolicy. Answers are not cached.
func New(binding chain.Binding) (*Trial, error) {
	t := &Trial{
		chains:  chain.New(chain.Options{MemoEntries: -1, ReservedKey: remote.ReservedKey, GuardedKey: invariants.GuardedKey}),
		witness: &witness{Policy: binding.Policy},
	}
	if binding.Name == "" {
		binding.Name = binding.Policy.Name()
	}
	binding.Policy = t.witness
	if err := t.chains.Swap([]chain.Binding{binding}); err != nil {
		return nil, fmt.Errorf("binding the policy: %w", err)
	}
	return t, nil
}

// Ask evaluates the policy. The answer has the call even if there is an error, which is that
// of [chain.Chains.Evaluate]. Not safe for concurrent use.
func (t *Trial) Ask(ctx context.Context, q *Question) (*Answer, error) {
	t.witness.last = Call{}
	in := chain.Input{Point: q.Point, Moment: q.Moment, Object: q.Object, Facts: q.Facts}
	if in.Point == contract.ResourceMutation {
		in.Writes = view.Writes(q.Object)
	}
	if !q.SkipChecks {
		in.Check = checkOf(q)
	}
	result, err := t.chains.Evaluate(ctx, in)
	if err != nil {
		return &Answer{Call: t.witness.last}, fmt.Errorf("asking the policy: %w", err)
	}
	return &Answer{Call: t.witness.last, Result: result}, nil
}

// checkOf returns the check of the point, and the validation of Kubernetes after it.
func checkOf(q *Question) chain.ObjectCheck {
	kind, _ := q.Object["kind"].(string)
	check := view.CheckOf(q.Point, kind, targets[kind])
	return func(before, after map[string]any) error {
		if err := check(before, after); err != nil {
			return &ObjectError{err}
		}
		if err := validate(kind, before, after); err != nil {
			return &ObjectError{err}
		}
		return nil
	}
}
