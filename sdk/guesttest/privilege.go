//go:build !wasip1

package guesttest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/longshore-dev/longshore/sdk/contract"
)

// project keeps of a facts object what the reads grant. Lists keep their length.
func project(facts any, reads []string) (json.RawMessage, error) {
	data, err := json.Marshal(facts)
	if err != nil {
		return nil, fmt.Errorf("encoding the facts: %w", err)
	}
	var whole any
	if err := json.Unmarshal(data, &whole); err != nil {
		return nil, fmt.Errorf("decoding the facts: %w", err)
	}
	var kept any = map[string]any{}
	for _, read := range reads {
		kept = keep(kept, whole, tokens(read))
	}
	data, err = json.Marshal(kept)
	if err != nil {
		return nil, fmt.Errorf("encoding the projected facts: %w", err)
	}
	return data, nil
}

// tokens splits a path into map keys, unescaped as in RFC 6901, and list selectors
// "[*]" and "[name=web]".
func tokens(path string) []string {
	var list []string
	for _, part := range strings.Split(strings.TrimPrefix(path, "/"), "/") {
		key, selector, found := strings.Cut(part, "[")
		list = append(list, strings.NewReplacer("~1", "/", "~0", "~").Replace(key))
		if found {
			list = append(list, "["+selector)
		}
	}
	return list
}

// keep adds to kept what the rest of a path grants of from, and returns it.
func keep(kept, from any, path []string) any {
	if len(path) == 0 {
		return from
	}
	switch from := from.(type) {
	case map[string]any:
		value, ok := from[path[0]]
		if !ok {
			return kept
		}
		into, ok := kept.(map[string]any)
		if !ok {
			into = map[string]any{}
		}
		if value = keep(into[path[0]], value, path[1:]); value != nil {
			into[path[0]] = value
		}
		return into
	case []any:
		into, ok := kept.([]any)
		if !ok {
			into = make([]any, len(from))
			for i := range into {
				into[i] = map[string]any{}
			}
		}
		for i := range from {
			if selects(path[0], from[i]) {
				into[i] = keep(into[i], from[i], path[1:])
			}
		}
		return into
	default:
		return kept
	}
}

// selects reports whether a selector picks a list item.
func selects(selector string, item any) bool {
	inner, ok := strings.CutPrefix(selector, "[")
	if !ok {
		return false
	}
	inner = strings.TrimSuffix(inner, "]")
	if inner == "*" {
		return true
	}
	field, want, _ := strings.Cut(inner, "=")
	object, ok := item.(map[string]any)
	return ok && object[field] == want
}

// allowed reports whether a rule allows the operation.
func allowed(o contract.Operation, rules []contract.WriteRule) bool {
	return slices.ContainsFunc(rules, func(r contract.WriteRule) bool {
		rule, path := tokens(r.Path), tokens(o.Path)
		if !slices.Contains(r.Verbs, o.Op) || !covers(rule, path) || !keysAllowed(o, r.Keys) {
			return false
		}
		adds := o.Op == contract.VerbEnsure || o.Op == contract.VerbRequire
		entersItems := slices.ContainsFunc(path[len(rule):], func(token string) bool { return strings.HasPrefix(token, "[") })
		return !adds || !entersItems
	})
}

// covers reports whether a rule's path is that of the operation, or above it. A rule
// for all items of a list covers each.
func covers(rule, path []string) bool {
	if len(rule) > len(path) {
		return false
	}
	for i, token := range rule {
		if token != path[i] && (token != "[*]" || !strings.HasPrefix(path[i], "[")) {
			return false
		}
	}
	return true
}

// renames reports whether an operation changes the member by which its path selects
// items, which the host refuses.
func renames(o contract.Operation) bool {
	path := tokens(o.Path)
	for i, token := range path {
		field, want, selects := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(token, "["), "]"), "=")
		switch {
		case !strings.HasPrefix(token, "[") || !selects:
		case i+1 < len(path):
			if path[i+1] == field {
				return true
			}
		case o.Op == contract.VerbRemove:
			if slices.Contains(o.Keys, field) {
				return true
			}
		default:
			var value map[string]any
			if json.Unmarshal(o.Value, &value) != nil {
				return o.Op == contract.VerbSet
			}
			if got, has := value[field]; (has || o.Op == contract.VerbSet) && got != want {
				return true
			}
		}
	}
	return false
}

// keysAllowed reports whether a merge or removal stays inside a rule's keys.
func keysAllowed(o contract.Operation, keys []string) bool {
	if len(keys) == 0 {
		return true
	}
	used := o.Keys
	if o.Op == contract.VerbMerge {
		var value map[string]json.RawMessage
		if err := json.Unmarshal(o.Value, &value); err != nil {
			return false
		}
		for key := range value {
			used = append(used, key)
		}
	}
	return len(used) > 0 && !slices.ContainsFunc(used, func(key string) bool { return !slices.Contains(keys, key) })
}
