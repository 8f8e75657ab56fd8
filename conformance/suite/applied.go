package suite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/longshore-dev/longshore/host/kit/jsonvalue"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/operation"
)

// applied asks the question through a chain, as a cluster would, about the object and then
// about the result. The error is the reason why the host does not accept the answer.
func (r *run) applied(ctx context.Context, q *question) (once, twice map[string]any, err error) {
	chains := chain.New(chain.Options{MemoEntries: -1})
	if err := chains.Swap([]chain.Binding{{Name: "conformance", Policy: r.hosts.ours.module, Point: q.point, Settings: q.source.Settings}}); err != nil {
		return nil, nil, fmt.Errorf("binding the module: %w", err)
	}
	value, err := jsonvalue.Decode(q.source.Facts)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the facts: %w", err)
	}
	facts, ok := value.(map[string]any)
	if !ok {
		return nil, nil, errors.New("the facts are no object")
	}
	object, _ := facts["object"].(map[string]any)
	if len(q.object) > 0 {
		if object, err = decodeObject(q.object); err != nil {
			return nil, nil, err
		}
	}
	delete(facts, "object")
	if object == nil {
		object = map[string]any{}
	}
	in := chain.Input{Point: q.point, Moment: q.source.Moment, Object: object, Facts: facts}
	first, err := chains.Evaluate(ctx, in)
	if err != nil {
		return nil, nil, fmt.Errorf("asking through a chain: %w", err)
	}
	if first.Denial != nil {
		return first.Object, first.Object, nil
	}
	in.Object = first.Object
	second, err := chains.Evaluate(ctx, in)
	if err != nil {
		return nil, nil, fmt.Errorf("asking about what it made of the object: %w", err)
	}
	return first.Object, second.Object, nil
}

// sameObject returns an error with the difference of two objects.
func sameObject(once, twice map[string]any) error {
	if operation.Equal(once, twice) {
		return nil
	}
	before, beforeErr := json.Marshal(once)
	after, afterErr := json.Marshal(twice)
	if err := errors.Join(beforeErr, afterErr); err != nil {
		return fmt.Errorf("encoding what the module made of the object: %w", err)
	}
	return fmt.Errorf("made %s of the object, and %s of that", before, after)
}
