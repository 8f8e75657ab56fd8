package chain

import (
	"fmt"
	"reflect"

	"github.com/longshore-dev/longshore/host/policy/operation"
)

// appendFacts appends the facts that a link reads as canonical JSON: keys sorted, absent and
// null members omitted. Lists keep their length; an item without readable members is {}.
func (r *reads) appendFacts(b []byte, object map[string]any, facts map[string]any) ([]byte, error) {
	b = append(b, '{')
	first := true
	for _, m := range r.root.members {
		var value any = object
		if m.key != "object" {
			value = facts[m.key]
		}
		var err error
		if b, first, err = m.appendTo(b, value, first); err != nil {
			return nil, fmt.Errorf("encoding /%s: %w", m.key, err)
		}
	}
	return append(b, '}'), nil
}

// appendTo appends the member with its key, unless it is absent or null.
func (m member) appendTo(b []byte, value any, first bool) ([]byte, bool, error) {
	if value == nil {
		return b, first, nil
	}
	start := len(b)
	if !first {
		b = append(b, ',')
	}
	out, err := appendJSON(b, m.key)
	if err != nil {
		return nil, first, err
	}
	out, present, err := m.node.append(append(out, ':'), value)
	if err != nil || !present {
		return b[:start], first, err
	}
	return out, false, nil
}

// append appends the readable part of a value. It reports false if there is none, because
// the value is null or does not have the shape that the paths expect.
func (n *readNode) append(b []byte, value any) ([]byte, bool, error) {
	if n.whole {
		return appendWhole(b, value)
	}
	switch v := value.(type) {
	case map[string]any:
		if v == nil {
			return b, false, nil
		}
		return n.appendMembers(b, func(key string) any { return v[key] })
	case map[string]string:
		if v == nil {
			return b, false, nil
		}
		return n.appendMembers(b, func(key string) any {
			if s, ok := v[key]; ok {
				return s
			}
			return nil
		})
	case []any:
		if v == nil {
			return b, false, nil
		}
		return n.appendItems(b, len(v), func(i int) any { return v[i] })
	case nil, string, bool, int64, float64:
		return b, false, nil
	}
	return n.appendReflected(b, value)
}

// appendWhole appends a whole value, and reports false if it is null.
func appendWhole(b []byte, value any) ([]byte, bool, error) {
	start := len(b)
	b, err := appendJSON(b, value)
	if err != nil {
		return nil, false, err
	}
	return b, string(b[start:]) != "null", nil
}

func (n *readNode) appendMembers(b []byte, get func(key string) any) ([]byte, bool, error) {
	if len(n.members) == 0 {
		return b, false, nil
	}
	b = append(b, '{')
	first := true
	for _, m := range n.members {
		var err error
		if b, first, err = m.appendTo(b, get(m.key), first); err != nil {
			return nil, false, err
		}
	}
	return append(b, '}'), true, nil
}

func (n *readNode) appendItems(b []byte, length int, get func(i int) any) ([]byte, bool, error) {
	if len(n.items) == 0 {
		return b, false, nil
	}
	b = append(b, '[')
	for i := range length {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = n.appendItem(b, get(i)); err != nil {
			return nil, false, err
		}
	}
	return append(b, ']'), true, nil
}

func (n *readNode) appendItem(b []byte, item any) ([]byte, error) {
	nodes := n.forItem(item)
	if len(nodes) == 0 {
		return append(b, "{}"...), nil
	}
	node := nodes[0]
	if len(nodes) > 1 {
		node = union(nodes)
	}
	start := len(b)
	out, present, err := node.append(b, item)
	if err != nil {
		return nil, err
	}
	if !present {
		return append(b[:start], "{}"...), nil
	}
	return out, nil
}

// union returns a node that reads everything that one of the nodes reads.
func union(nodes []*readNode) *readNode {
	joined := &readNode{}
	for _, node := range nodes {
		joined.merge(node)
	}
	return joined
}

func (n *readNode) merge(other *readNode) {
	if n.whole {
		return
	}
	if other.whole {
		*n = readNode{whole: true}
		return
	}
	for _, m := range other.members {
		n.child(operation.Step{Kind: operation.StepKey, Key: m.key}).merge(m.node)
	}
	for _, i := range other.items {
		n.child(i.step).merge(i.node)
	}
}

// appendReflected appends the readable part of a Go value that is not a value of a document.
// It takes fields of structs by their JSON names, without converting the others.
func (n *readNode) appendReflected(b []byte, value any) ([]byte, bool, error) {
	v := reflect.ValueOf(value)
	for v.Kind() == reflect.Pointer && !v.IsNil() && !operation.Marshals(v.Type()) {
		v = v.Elem()
	}
	if operation.IsNil(v) {
		return b, false, nil
	}
	if fields, ok := operation.FieldsOf(v.Type()); ok {
		return n.appendMembers(b, func(key string) any { return fields.Get(v, key) })
	}
	if v.Kind() == reflect.Slice && !operation.Marshals(v.Type()) && v.Type().Elem().Kind() != reflect.Uint8 {
		return n.appendItems(b, v.Len(), func(i int) any { return operation.Reference(v.Index(i)) })
	}
	normalized, err := operation.Normalize(value)
	if err != nil {
		return nil, false, err
	}
	switch normalized.(type) {
	case map[string]any, []any:
		return n.append(b, normalized)
	}
	return b, false, nil
}
