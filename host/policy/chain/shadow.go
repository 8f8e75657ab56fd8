package chain

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/longshore-dev/longshore/host/policy/operation"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// Difference is what a Shadow policy would have made of an object that the chain
// without it did not: verbs and paths, no values.
type Difference struct {
	// Kind, Namespace and Name of the object; the namespace is the local one. An object
	// that is being created may have no name yet, but the beginning of one.
	Kind, Namespace, Name string
	// Effects that the policy would have had. For one that stands in for an enforced
	// policy of its name, what would differ from that one's result.
	Effects []operation.Effect
	// Denied is the reason with which it would have refused the object.
	Denied string
}

// shadow asks a Shadow policy and tells the observer; nothing else comes of it.
// The object is the one before, the baseline the one after the enforced policy that the
// shadow stands in for, and the same if there is none.
func (c *Chains) shadow(ctx context.Context, l *link, in Input, object, baseline map[string]any) {
	scratch := &Result{Object: object}
	asked := c.attempt(ctx, l, in, scratch)
	if ctx.Err() != nil || (asked.err == nil && !asked.concerned) {
		return
	}
	asked.seen.Shadow = true
	if asked.err != nil {
		failure := l.failure(in, asked.err)
		asked.seen.Err, asked.seen.Class, asked.seen.Outcome = failure, failure.Class, Failed
		c.observe(asked.seen)
		return
	}
	difference := &Difference{Effects: asked.decision.Effects}
	if scratch.Denial != nil {
		difference.Denied = scratch.Denial.Reason
	} else if l.twin {
		effects, err := differences(baseline, scratch.Object)
		if err != nil {
			asked.seen.Err, asked.seen.Class, asked.seen.Outcome = l.failure(in, err), Host, Failed
			c.observe(asked.seen)
			return
		}
		difference.Effects = effects
	}
	if len(difference.Effects) > 0 || difference.Denied != "" {
		difference.identify(in)
		asked.seen.Difference = difference
	}
	c.observe(asked.seen)
}

// identify names the object.
func (d *Difference) identify(in Input) {
	text := func(value any) string {
		value, err := operation.Normalize(value)
		if err != nil {
			return ""
		}
		s, _ := value.(string)
		return s
	}
	metadata, _ := operation.Normalize(in.Object["metadata"])
	members := object(metadata)
	d.Kind, d.Namespace, d.Name = text(in.Object["kind"]), in.Match.Namespace, text(members["name"])
	if d.Namespace == "" {
		d.Namespace = text(members["namespace"])
	}
	if prefix := text(members["generateName"]); d.Name == "" && prefix != "" {
		d.Name = prefix + "…"
	}
}

// differences lists what turns one document into another: fields to set and fields to
// remove, lists as a whole.
func differences(from, to map[string]any) ([]operation.Effect, error) {
	var documents [2]map[string]any
	for i, document := range []map[string]any{from, to} {
		encoded, err := appendJSON(nil, document)
		if err != nil {
			return nil, fmt.Errorf("comparing objects: %w", err)
		}
		decoded, err := operation.Normalize(json.RawMessage(encoded))
		if err != nil {
			return nil, fmt.Errorf("comparing objects: %w", err)
		}
		documents[i] = object(decoded)
	}
	return compare(nil, "", documents[0], documents[1]), nil
}

func compare(effects []operation.Effect, path string, from, to map[string]any) []operation.Effect {
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
			effects = compare(effects, at, before, after)
		case !operation.Equal(from[key], value):
			effects = append(effects, operation.Effect{Verb: contract.VerbSet, Path: at})
		}
	}
	return effects
}
