package suite

import (
	"context"
	"maps"
	"slices"
)

// shrinkAttempts bounds the questions that are asked to find a small input.
const shrinkAttempts = 150

// addSmall adds a finding. The first of a rule and feature gets the smallest input that breaks
// the rule.
func (r *run) addSmall(ctx context.Context, found outcome, q *question) {
	key := found.rule + " " + string(q.point)
	if r.shrunk[key] {
		r.add(found.rule, string(q.point), q.name, found.err, nil)
		return
	}
	r.shrunk[key] = true
	smallest := found.err
	required := promised(q.point, q.moment)
	facts := shrink(q.facts, shrinkAttempts, func(facts map[string]any) bool {
		for name := range required {
			if _, has := facts[name]; !has {
				return false // no host asks this
			}
		}
		outcomes, _, err := r.evaluate(ctx, q.with(facts))
		at := slices.IndexFunc(outcomes, func(o outcome) bool { return o.rule == found.rule && o.err != nil })
		if err != nil || at < 0 {
			return false
		}
		smallest = outcomes[at].err
		return true
	})
	input, err := q.with(facts).request()
	if err != nil {
		input = nil
	}
	r.add(found.rule, string(q.point), q.name, smallest, input)
}

// shrink removes members and items from an object as long as a condition holds. It asks at
// most a number of times and does not alter its arguments.
func shrink(object map[string]any, attempts int, holds func(map[string]any) bool) map[string]any {
	for at := 0; attempts > 0; {
		paths := pathsOf(object, nil)
		if at >= len(paths) {
			break
		}
		attempts--
		smaller, ok := without(object, paths[at]).(map[string]any)
		if ok && holds(smaller) {
			object = smaller
			continue
		}
		at++
	}
	return object
}

// pathsOf lists the members and items of a value, the larger before those that it contains.
// A step is a string or an int.
func pathsOf(value any, prefix []any) [][]any {
	var paths [][]any
	child := func(step, value any) {
		path := append(slices.Clone(prefix), step)
		paths = append(append(paths, path), pathsOf(value, path)...)
	}
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			child(key, v[key])
		}
	case []any:
		for i := range v {
			child(i, v[i])
		}
	}
	return paths
}

// without returns a copy of a value without what is at a path.
func without(value any, path []any) any {
	return edited(value, path, nil)
}

// edited returns a copy of a value with another one at a path; with none it is removed.
func edited(value any, path []any, replacement any) any {
	switch v := value.(type) {
	case map[string]any:
		key, _ := path[0].(string)
		copied := maps.Clone(v)
		switch {
		case len(path) > 1:
			copied[key] = edited(v[key], path[1:], replacement)
		case replacement == nil:
			delete(copied, key)
		default:
			copied[key] = replacement
		}
		return copied
	case []any:
		i, _ := path[0].(int)
		copied := slices.Clone(v)
		switch {
		case len(path) > 1:
			copied[i] = edited(v[i], path[1:], replacement)
		case replacement == nil:
			copied = slices.Delete(copied, i, i+1)
		default:
			copied[i] = replacement
		}
		return copied
	default:
		return value
	}
}
