package chain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/longshore-dev/longshore/host/policy/document"
	"github.com/longshore-dev/longshore/host/policy/operation"
)

// reads is the tree of the facts that a link may read.
type reads struct{ root readNode }

// readNode is a field that is read: as a whole, or some of its members or items.
type readNode struct {
	whole   bool
	members []member // sorted by key
	items   []items
}

type member struct {
	key  string
	node *readNode
}

type items struct {
	step operation.Step
	node *readNode
}

// newReads compiles the declared paths, narrowed by the allowed ones if there are any.
func newReads(declared, allowed []string, limit bound) (*reads, error) {
	paths, err := parseReads(declared, limit)
	if err != nil {
		return nil, fmt.Errorf("reads of the manifest: %w; the module's author must correct it", err)
	}
	if len(allowed) > 0 {
		narrow, err := parseReads(allowed, limit)
		if err != nil {
			return nil, fmt.Errorf("spec.allow.reads: %w; the operator must correct it", err)
		}
		paths = intersectPaths(paths, narrow)
	}
	r := &reads{}
	for _, path := range paths {
		r.root.add(path.Steps())
	}
	return r, nil
}

func parseReads(texts []string, limit bound) ([]operation.Path, error) {
	paths := make([]operation.Path, len(texts))
	for i, text := range texts {
		path, err := operation.ParsePath(text)
		if err != nil {
			return nil, err
		}
		if !limit.hasFact(path) {
			return nil, fmt.Errorf("path %q: the extension point has no such fact, only %s", text, strings.Join(limit.Facts, ", "))
		}
		paths[i] = path
	}
	return paths, nil
}

// intersectPaths returns paths that are covered by both lists.
func intersectPaths(declared, allowed []operation.Path) []operation.Path {
	var paths []operation.Path
	for _, d := range declared {
		for _, a := range allowed {
			switch {
			case a.Covers(d):
				paths = append(paths, d)
			case d.Covers(a):
				paths = append(paths, a)
			}
		}
	}
	return paths
}

func (n *readNode) add(steps []operation.Step) {
	if n.whole {
		return
	}
	if len(steps) == 0 {
		*n = readNode{whole: true}
		return
	}
	n.child(steps[0]).add(steps[1:])
}

func (n *readNode) child(step operation.Step) *readNode {
	if step.Kind != operation.StepKey {
		for _, have := range n.items {
			if have.step == step {
				return have.node
			}
		}
		node := &readNode{}
		n.items = append(n.items, items{step: step, node: node})
		return node
	}
	at, found := slices.BinarySearchFunc(n.members, step.Key, func(m member, key string) int { return strings.Compare(m.key, key) })
	if !found {
		n.members = slices.Insert(n.members, at, member{key: step.Key, node: &readNode{}})
	}
	return n.members[at].node
}

// appendFacts appends what a link reads of the facts as canonical JSON.
func (r *reads) appendFacts(b []byte, object, facts map[string]any) ([]byte, error) {
	picked := make(map[string]any, len(r.root.members))
	for _, m := range r.root.members {
		var fact any = object
		if m.key != objectFact {
			fact = facts[m.key]
		}
		var err error
		if picked[m.key], err = m.node.pick(fact); err != nil {
			return nil, fmt.Errorf("reading /%s: %w", m.key, err)
		}
	}
	return document.Append(b, picked)
}

// pick returns the readable part of a value. It is nil if the value is null or does not have the shape that the
// paths expect. Lists keep their length; an item without a readable part is {}.
func (n *readNode) pick(value any) (any, error) {
	if n.whole {
		return value, nil
	}
	value, err := document.Open(value)
	if err != nil {
		return nil, err
	}
	switch v := value.(type) {
	case map[string]any:
		if len(n.members) == 0 {
			return nil, nil
		}
		picked := make(map[string]any, len(n.members))
		for _, m := range n.members {
			if picked[m.key], err = m.node.pick(v[m.key]); err != nil {
				return nil, err
			}
		}
		return picked, nil
	case []any:
		if len(n.items) == 0 {
			return nil, nil
		}
		picked := make([]any, len(v))
		for i, item := range v {
			if picked[i], err = n.pickItem(item); err != nil {
				return nil, err
			}
		}
		return picked, nil
	default:
		return nil, nil
	}
}

// pickItem returns what the selectors that select a list item read of it.
func (n *readNode) pickItem(item any) (any, error) {
	item, err := document.Open(item)
	if err != nil {
		return nil, err
	}
	union := &readNode{}
	for _, candidate := range n.items {
		if candidate.step.Selects(item) {
			union.merge(candidate.node)
		}
	}
	picked, err := union.pick(item)
	if picked == nil {
		picked = map[string]any{}
	}
	return picked, err
}

// merge makes a node read what another one reads, too.
func (n *readNode) merge(other *readNode) {
	switch {
	case n.whole:
	case other.whole:
		*n = readNode{whole: true}
	default:
		for _, m := range other.members {
			n.child(operation.Step{Kind: operation.StepKey, Key: m.key}).merge(m.node)
		}
		for _, i := range other.items {
			n.child(i.step).merge(i.node)
		}
	}
}
