package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/operation"
)

// ChangedBy names the policies that changed one of the fields, in order, each once. Fields
// are JSON pointers into the object that policies see ("/spec/hostNetwork"). A change above
// or below a field counts. Without such a policy it returns "the policies".
//
//	policy "evil" (module evil, 0123456789ab)
func ChangedBy(decisions []chain.Decision, fields []string) string {
	paths := make([]operation.Path, 0, len(fields))
	for _, field := range fields {
		// No operation can have changed a field that is not a valid path.
		if path, err := operation.ParsePath(field); err == nil {
			paths = append(paths, path)
		}
	}
	var names []string
	for i := range decisions {
		d := &decisions[i]
		name := fmt.Sprintf("policy %q (module %s, %s)", d.Binding, d.Module, chain.ShortDigest(d.Digest))
		changed := slices.ContainsFunc(d.Effects, func(e operation.Effect) bool { return overlapsAny(&e, paths) })
		if changed && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "the policies"
	}
	return strings.Join(names, " and ")
}

// overlapsAny reports whether an effect changed a field at one of the paths.
func overlapsAny(effect *operation.Effect, paths []operation.Path) bool {
	changed := []string{effect.Path}
	if len(effect.Keys) > 0 {
		changed = changed[:0]
		for _, key := range effect.Keys {
			changed = append(changed, effect.Path+"/"+operation.EscapeToken(key))
		}
	}
	for _, text := range changed {
		path, err := operation.ParsePath(text)
		if err != nil {
			// The key is not a valid token of a path: use the path of the map.
			if path, err = operation.ParsePath(effect.Path); err != nil {
				return true
			}
		}
		if slices.ContainsFunc(paths, path.Overlaps) {
			return true
		}
	}
	return false
}
