package chain

import (
	"context"
	"fmt"

	"github.com/longshore-dev/longshore/host/policy/document"
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
	o := c.attempt(ctx, l, in, before)
	if ctx.Err() != nil || o.err == nil && !o.answered {
		return
	}
	seen := l.observation(in, o)
	seen.Shadow = true
	if o.err == nil {
		seen.Difference, o.err = l.difference(in, o, before, enforced)
	}
	if o.err != nil {
		seen.fail(l.policyError(in, o.err))
	}
	c.observe(seen)
}

// difference returns what the outcome of a Shadow policy would have changed, nil for nothing.
func (l *link) difference(in Input, o outcome, before, enforced map[string]any) (*Difference, error) {
	d := &Difference{Effects: o.effects}
	switch {
	case o.denial != nil:
		d.Denied = o.denial.Reason
	case l.isPaired:
		after := before
		if len(o.effects) > 0 {
			after = o.object
		}
		var err error
		if d.Effects, err = compareObjects(nil, "", enforced, after); err != nil {
			return nil, fmt.Errorf("comparing objects: %w", err)
		}
	}
	if len(d.Effects) == 0 && d.Denied == "" {
		return nil, nil
	}
	d.setObject(in)
	return d, nil
}

// setObject sets the kind, namespace and name of the object.
func (d *Difference) setObject(in Input) {
	text := func(value any) string {
		text, _ := document.Text(value)
		return text
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

// compareObjects appends the fields to set and to remove to turn one object into another.
// Lists are compared as a whole.
func compareObjects(effects []operation.Effect, path string, from, to map[string]any) ([]operation.Effect, error) {
	for _, name := range document.Changed(from, to) {
		at := path + "/" + operation.EscapeToken(name)
		before, err := document.Open(from[name])
		if err != nil {
			return nil, err
		}
		after, err := document.Open(to[name])
		if err != nil {
			return nil, err
		}
		old, isObject := before.(map[string]any)
		now, areObjects := after.(map[string]any)
		switch {
		case isObject && areObjects:
			if effects, err = compareObjects(effects, at, old, now); err != nil {
				return nil, err
			}
		case document.Equal(before, after):
		case after == nil:
			effects = append(effects, operation.Effect{Verb: contract.VerbRemove, Path: at})
		default:
			effects = append(effects, operation.Effect{Verb: contract.VerbSet, Path: at})
		}
	}
	return effects, nil
}
