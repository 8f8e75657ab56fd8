package chain

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/longshore-dev/longshore/host/kit/jsonvalue"
	"github.com/longshore-dev/longshore/host/policy/operation"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// Difference is what a Shadow policy would have changed that the chain without it did not:
// verbs and paths, no values.
type Difference struct {
	// Kind, Namespace and Name of the local object. An object that is being created may
	// have a generateName only; Name is then that prefix and an ellipsis.
	Kind, Namespace, Name string
	// Effects of the policy. For a binding with the name of an enforced one, the
	// differences from that one's result.
	Effects []operation.Effect
	// Denied is the reason with which the policy would have denied the object.
	Denied string
}

// observeShadow calls a Shadow policy and reports to the observer. before is the object
// before, and enforced the object after the enforced policy with the same name; both are
// the same without one.
func (c *Chains) observeShadow(ctx context.Context, l *link, in Input, before, enforced map[string]any) {
	result := &Result{Object: before}
	a := c.attempt(ctx, l, in, result)
	if ctx.Err() != nil || (a.err == nil && !a.matched) {
		return
	}
	a.observation.Shadow = true
	defer func() { c.observe(a.observation) }()
	fail := func(err error) {
		failure := l.policyError(in, err)
		a.observation.Err, a.observation.Class, a.observation.Outcome = failure, failure.Class, Failed
	}
	if a.err != nil {
		fail(a.err)
		return
	}
	difference := &Difference{Effects: a.decision.Effects}
	if result.Denial != nil {
		difference.Denied = result.Denial.Reason
	} else if l.isPaired {
		effects, err := compareDocuments(enforced, result.Object)
		if err != nil {
			fail(err)
			return
		}
		difference.Effects = effects
	}
	if len(difference.Effects) > 0 || difference.Denied != "" {
		difference.setObject(in)
		a.observation.Difference = difference
	}
}

// setObject sets the kind, namespace and name of the object.
func (d *Difference) setObject(in Input) {
	text := func(value any) string {
		value, err := operation.Normalize(value)
		if err != nil {
			return ""
		}
		s, _ := value.(string)
		return s
	}
	metadata := asObject(in.Object["metadata"])
	d.Kind, d.Namespace, d.Name = text(in.Object["kind"]), in.Match.Namespace, text(metadata["name"])
	if d.Namespace == "" {
		d.Namespace = text(metadata["namespace"])
	}
	if prefix := text(metadata["generateName"]); d.Name == "" && prefix != "" {
		d.Name = prefix + "…"
	}
}

// compareDocuments returns the fields to set and to remove to turn one document into
// another. Lists are compared as a whole.
func compareDocuments(from, to map[string]any) ([]operation.Effect, error) {
	var documents [2]map[string]any
	for i, document := range []map[string]any{from, to} {
		encoded, err := appendJSON(nil, document)
		if err != nil {
			return nil, fmt.Errorf("comparing objects: %w", err)
		}
		decoded, err := jsonvalue.Decode(encoded)
		if err != nil {
			return nil, fmt.Errorf("comparing objects: %w", err)
		}
		documents[i] = asObject(decoded)
	}
	return compareObjects(nil, "", documents[0], documents[1]), nil
}

func compareObjects(effects []operation.Effect, path string, from, to map[string]any) []operation.Effect {
	keys := slices.Sorted(maps.Keys(from))
	for key := range to {
		if _, both := from[key]; !both {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		at := path + "/" + operation.EscapeToken(key)
		before, isObject := from[key].(map[string]any)
		after, areObjects := to[key].(map[string]any)
		switch value, stays := to[key]; {
		case !stays || value == nil:
			if from[key] != nil {
				effects = append(effects, operation.Effect{Verb: contract.VerbRemove, Path: at})
			}
		case isObject && areObjects:
			effects = compareObjects(effects, at, before, after)
		case !operation.Equal(from[key], value):
			effects = append(effects, operation.Effect{Verb: contract.VerbSet, Path: at})
		}
	}
	return effects
}
