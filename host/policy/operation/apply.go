package operation

import (
	"fmt"
	"maps"
	"slices"

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
		slices.Sort(e.keys)
		effects = append(effects, Effect{Verb: o.Verb, Path: o.Path.text, Keys: slices.Compact(e.keys)})
	}
	return doc, effects, nil
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
	next := withMember(members, key, edited)
	if edited == (removed{}) {
		delete(next, key)
	}
	return next, true, nil
}

// editItems edits the items that a selector step selects.
func (e *editor) editItems(node any, selector Step, steps []Step) (any, bool, error) {
	items, err := asList(node)
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
	normalized, err := Normalize(item)
	if err != nil {
		return false
	}
	members, ok := normalized.(map[string]any)
	return ok && members[s.Key] == s.Value
}

// applyVerb applies the operation's verb to the node at the end of its path.
func (e *editor) applyVerb(node any) (any, bool, error) {
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
		return removed{}, true, nil
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

func (e *editor) ensure(node any) (any, bool, error) {
	items, err := asList(node)
	if err != nil {
		return nil, false, err
	}
	values, ok := e.operation.value.([]any)
	if !ok {
		return nil, false, fmt.Errorf("the value is a %T", e.operation.value)
	}
	next := slices.Clip(items) // appending must not write into the caller's list
	known := newSet(items, hashValue, Equal)
	for _, value := range values {
		if known.add(value) {
			next = append(next, value)
		}
	}
	return next, len(next) > len(items), nil
}

// The types of JSON that operations and paths need, for messages.
const (
	objectType = "an object"
	listType   = "a list"
)

// TypeError reports a value that has another type than an operation or its path needs. Found and
// Want describe the types.
type TypeError struct{ Found, Want string }

// Error implements error.
func (e *TypeError) Error() string {
	if e.Found == listType {
		return fmt.Sprintf("found %s (select items by [name=x] or [*]), want %s", e.Found, e.Want)
	}
	return fmt.Sprintf("found %s, want %s", e.Found, e.Want)
}

// asObject returns a node as an object, nil for an absent one.
func asObject(node any) (map[string]any, error) {
	normalized, err := Normalize(node)
	if err != nil || normalized == nil {
		return nil, err
	}
	members, ok := normalized.(map[string]any)
	if !ok {
		return nil, &TypeError{Found: jsonType(normalized), Want: objectType}
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
		return nil, &TypeError{Found: jsonType(normalized), Want: listType}
	}
	return items, nil
}

// jsonType describes the JSON type of a value.
func jsonType(value any) string {
	switch value.(type) {
	case map[string]any:
		return objectType
	case []any:
		return listType
	case string:
		return "a string"
	case bool:
		return "a boolean"
	default:
		return "a number"
	}
}

// withMember returns a copy of an object with one member set.
func withMember(members map[string]any, key string, value any) map[string]any {
	next := make(map[string]any, len(members)+1)
	maps.Copy(next, members)
	next[key] = value
	return next
}
