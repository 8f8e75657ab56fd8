package operation

import (
	"fmt"
	"maps"
	"slices"

	"github.com/longshore-dev/longshore/sdk/contract"
)

// absent is what an edit answers for a field that is to be dropped.
type absent struct{}

// Apply applies operations in order and returns the new document with the effects
// of those that changed it. The given document is not altered; the new one shares
// with it what did not change and, with the operations, the values written, so
// neither may be altered in place afterwards. Without effects the document is
// returned as it is.
//
// An error means that the document does not have the shape that an operation
// expects (a merge into a list, say); the policy's author must act.
func Apply(doc map[string]any, operations []Operation) (map[string]any, []Effect, error) {
	var effects []Effect
	for i := range operations {
		o := &operations[i]
		if o.idle() {
			continue
		}
		run := editor{operation: o}
		edited, changed, err := run.edit(doc, o.Path.steps)
		if err != nil {
			return nil, nil, fmt.Errorf("operation %d (%s %s): %w", i, o.Verb, o.Path, err)
		}
		if !changed {
			continue
		}
		next, ok := edited.(map[string]any)
		if !ok {
			return nil, nil, fmt.Errorf("operation %d (%s %s): the document became a %T", i, o.Verb, o.Path, edited)
		}
		doc = next
		slices.Sort(run.keys)
		effects = append(effects, Effect{Verb: o.Verb, Path: o.Path.text, Keys: slices.Compact(run.keys)})
	}
	return doc, effects, nil
}

// idle reports whether the operation asks for nothing, whatever the document is like: not
// even the shape of the document matters then.
func (o *Operation) idle() bool {
	switch value := o.value.(type) {
	case []any:
		return o.Verb == contract.VerbEnsure && len(value) == 0
	case map[string]any:
		return o.Verb == contract.VerbMerge && len(value) == 0
	default:
		return false
	}
}

// editor applies one operation and collects the keys that it touched.
type editor struct {
	operation *Operation
	keys      []string
}

// edit returns node with the operation applied below the remaining steps. A nil
// node is an absent one.
func (e *editor) edit(node any, steps []Step) (any, bool, error) {
	if len(steps) == 0 {
		return e.leaf(node)
	}
	if steps[0].Kind != StepKey {
		return e.editItems(node, steps[0], steps[1:])
	}
	members, err := asObject(node)
	if err != nil {
		return nil, false, err
	}
	key := steps[0].Key
	child := members[key]
	edited, changed, err := e.edit(child, steps[1:])
	if err != nil || !changed {
		return node, false, err
	}
	next := make(map[string]any, len(members)+1)
	maps.Copy(next, members)
	if edited == (absent{}) {
		delete(next, key)
	} else {
		next[key] = edited
	}
	return next, true, nil
}

// editItems edits the items that a selector picks. No item, no change.
func (e *editor) editItems(node any, selector Step, steps []Step) (any, bool, error) {
	items, err := asList(node)
	if err != nil {
		return nil, false, err
	}
	var next []any
	dropped := false
	for i, item := range items {
		if !selector.Selects(item) {
			continue
		}
		edited, changed, err := e.edit(item, steps)
		if err != nil {
			return nil, false, err
		}
		if !changed {
			continue
		}
		if next == nil {
			next = slices.Clone(items)
		}
		next[i] = edited
		dropped = dropped || edited == (absent{})
	}
	if next == nil {
		return node, false, nil
	}
	if dropped {
		next = slices.DeleteFunc(next, func(item any) bool { return item == absent{} })
	}
	return next, true, nil
}

// Selects reports whether a selector step picks a list item. Items that are no
// objects are picked by "[*]" only.
func (s Step) Selects(item any) bool {
	if s.Kind == StepAll {
		return true
	}
	normalized, err := Normalize(item)
	if err != nil {
		return false
	}
	members, ok := normalized.(map[string]any)
	return ok && members[s.Key] == s.Value
}

// leaf applies the verb to the node at the end of the path.
func (e *editor) leaf(node any) (any, bool, error) {
	switch e.operation.Verb {
	case contract.VerbSet:
		if Equal(node, e.operation.value) {
			return node, false, nil
		}
		return e.operation.value, true, nil
	case contract.VerbRemove:
		return e.remove(node)
	case contract.VerbMerge:
		return e.merge(node)
	case contract.VerbEnsure:
		return e.ensure(node)
	case contract.VerbRequire:
		return require(node, e.operation.terms)
	default:
		return nil, false, fmt.Errorf("unknown verb %q", e.operation.Verb)
	}
}

func (e *editor) remove(node any) (any, bool, error) {
	if node == nil {
		return node, false, nil
	}
	if len(e.operation.Keys) == 0 {
		return absent{}, true, nil
	}
	members, err := asObject(node)
	if err != nil {
		return nil, false, err
	}
	var next map[string]any
	for _, key := range e.operation.Keys {
		if members[key] == nil {
			continue
		}
		if next == nil {
			next = maps.Clone(members)
		}
		delete(next, key)
		e.keys = append(e.keys, key)
	}
	return next, next != nil, nil
}

func (e *editor) merge(node any) (any, bool, error) {
	members, err := asObject(node)
	if err != nil {
		return nil, false, err
	}
	values, ok := e.operation.value.(map[string]any)
	if !ok {
		return nil, false, fmt.Errorf("the value is a %T", e.operation.value)
	}
	var next map[string]any
	for key, value := range values {
		if Equal(members[key], value) {
			continue
		}
		if next == nil {
			next = make(map[string]any, len(members)+len(values))
			maps.Copy(next, members)
		}
		next[key] = value
		e.keys = append(e.keys, key)
	}
	return next, next != nil, nil
}

// fewComparisons take less time than making a set.
const fewComparisons = 256

func (e *editor) ensure(node any) (any, bool, error) {
	items, err := asList(node)
	if err != nil {
		return nil, false, err
	}
	values, ok := e.operation.value.([]any)
	if !ok {
		return nil, false, fmt.Errorf("the value is a %T", e.operation.value)
	}
	next := items
	isNew := func(value any) bool {
		return !slices.ContainsFunc(next, func(item any) bool { return Equal(item, value) })
	}
	if (len(items)+len(values))*len(values) > fewComparisons {
		isNew = setOf(items).add
	}
	for _, value := range values {
		if !isNew(value) {
			continue
		}
		if len(next) == len(items) {
			next = slices.Clip(next) // appending must not write into the caller's list
		}
		next = append(next, value)
	}
	return next, len(next) > len(items), nil
}

// asObject returns a node as an object, nil for an absent one.
func asObject(node any) (map[string]any, error) {
	normalized, err := Normalize(node)
	if err != nil || normalized == nil {
		return nil, err
	}
	members, ok := normalized.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("found a %s where an object is expected", kind(normalized))
	}
	return members, nil
}

// asList returns a node as a list, nil for an absent one.
func asList(node any) ([]any, error) {
	normalized, err := Normalize(node)
	if err != nil || normalized == nil {
		return nil, err
	}
	items, ok := normalized.([]any)
	if !ok {
		return nil, fmt.Errorf("found a %s where a list is expected", kind(normalized))
	}
	return items, nil
}

// kind names a value in the words of JSON.
func kind(value any) string {
	switch value.(type) {
	case map[string]any:
		return "object"
	case []any:
		return "list (items are selected by [name=x] or [*])"
	case string:
		return "string"
	case bool:
		return "boolean"
	default:
		return "number"
	}
}
