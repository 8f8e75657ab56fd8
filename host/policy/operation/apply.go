package operation

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/longshore-dev/longshore/host/policy/document"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// removed is the value that an edit returns for a field or item to remove.
type removed struct{}

// Apply applies operations in order and returns the new document and the changes. It does
// not alter the given document. The new document shares unchanged values with the given
// one, and written values with the operations, so neither may be altered in place
// afterwards. If nothing changes, Apply returns the given document.
//
// An error means that the document does not have the shape that an operation expects (a
// merge into a list, for example); the policy's author must fix it.
func Apply(doc map[string]any, operations []Operation) (map[string]any, []Effect, error) {
	var effects []Effect
	for i := range operations {
		o := &operations[i]
		if o.isNoOp() {
			continue
		}
		e := editor{operation: o}
		edited, changed, err := e.edit(doc, o.Path.steps)
		if err != nil {
			return nil, nil, fmt.Errorf("operation %d (%s %s): %w%s", i, o.Verb, o.Path, err, hint(err))
		}
		if !changed {
			continue
		}
		next, ok := edited.(map[string]any)
		if !ok {
			return nil, nil, fmt.Errorf("operation %d (%s %s): the document became a %T", i, o.Verb, o.Path, edited)
		}
		doc = next
		slices.Sort(e.keys)
		effects = append(effects, Effect{Verb: o.Verb, Path: o.Path.text, Keys: slices.Compact(e.keys)})
	}
	return doc, effects, nil
}

// hint says how a path goes into a list, if that can be what was wrong.
func hint(err error) string {
	mistyped, ok := errors.AsType[*document.TypeError](err)
	if !ok || mistyped.Found != document.ListType {
		return ""
	}
	return ": select items by [name=x] or [*]"
}

// isNoOp reports whether the operation changes no document, whatever its shape.
func (o *Operation) isNoOp() bool {
	switch value := o.value.(type) {
	case []any:
		return o.Verb == contract.VerbEnsure && len(value) == 0
	case map[string]any:
		return o.Verb == contract.VerbMerge && len(value) == 0
	default:
		return false
	}
}

// editor applies one operation and collects the map keys that it changed.
type editor struct {
	operation *Operation
	keys      []string
}

// edit returns node with the operation applied below the remaining steps. A nil node is
// absent.
func (e *editor) edit(node any, steps []Step) (any, bool, error) {
	if len(steps) == 0 {
		return e.applyVerb(node)
	}
	if steps[0].Kind != StepKey {
		return e.editItems(node, steps[0], steps[1:])
	}
	members, err := document.Object(node)
	if err != nil {
		return nil, false, err
	}
	key := steps[0].Key
	child := members[key]
	edited, changed, err := e.edit(child, steps[1:])
	if err != nil || !changed {
		return node, false, err
	}
	if edited == (removed{}) {
		edited = nil
	}
	return document.With(members, key, edited), true, nil
}

// editItems edits the items that a selector step selects.
func (e *editor) editItems(node any, selector Step, steps []Step) (any, bool, error) {
	items, err := document.List(node)
	if err != nil {
		return nil, false, err
	}
	var next []any
	hasRemoved := false
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
		hasRemoved = hasRemoved || edited == (removed{})
	}
	if next == nil {
		return node, false, nil
	}
	if hasRemoved {
		next = slices.DeleteFunc(next, func(item any) bool { return item == removed{} })
	}
	return next, true, nil
}

// Selects reports whether a selector step selects a list item. Only "[*]" selects items
// that are not objects.
func (s Step) Selects(item any) bool {
	if s.Kind == StepAll {
		return true
	}
	members, err := document.Object(item)
	if err != nil {
		return false
	}
	text, err := document.Text(members[s.Key])
	return err == nil && members[s.Key] != nil && text == s.Value
}

// applyVerb applies the operation's verb to the node at the end of its path.
func (e *editor) applyVerb(node any) (any, bool, error) {
	switch e.operation.Verb {
	case contract.VerbSet:
		if document.Equal(node, e.operation.value) {
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
		return removed{}, true, nil
	}
	members, err := document.Object(node)
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
	members, err := document.Object(node)
	if err != nil {
		return nil, false, err
	}
	values, ok := e.operation.value.(map[string]any)
	if !ok {
		return nil, false, fmt.Errorf("the value is a %T", e.operation.value)
	}
	var next map[string]any
	for key, value := range values {
		if document.Equal(members[key], value) {
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

func (e *editor) ensure(node any) (any, bool, error) {
	items, err := document.List(node)
	if err != nil {
		return nil, false, err
	}
	values, ok := e.operation.value.([]any)
	if !ok {
		return nil, false, fmt.Errorf("the value is a %T", e.operation.value)
	}
	next := slices.Clip(items) // appending must not write into the caller's list
	known := newSet(items, hashValue, document.Equal)
	for _, value := range values {
		if known.add(value) {
			next = append(next, value)
		}
	}
	return next, len(next) > len(items), nil
}
