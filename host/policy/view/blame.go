package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/operation"
)

// Culprits names the policies that changed one of the fields, in order, each once: who
// to turn to when the outcome of a chain must not be. Fields are JSON pointers into the
// object that policies see ("/spec/hostNetwork"); a policy that wrote above or below one
// counts. It returns "the policies" when none did.
//
//	policy "evil" (module evil, 0123456789ab)
func Culprits(decisions []chain.Decision, fields []string) string {
	paths := make([]operation.Path, 0, len(fields))
	for _, field := range fields {
		// What is no path was written by nobody.
		if path, err := operation.ParsePath(field); err == nil {
			paths = append(paths, path)
		}
	}
	var names []string
	for i := range decisions {
		d := &decisions[i]
		name := fmt.Sprintf("policy %q (module %s, %s)", d.Binding, d.Module, chain.ShortDigest(d.Digest))
		wrote := slices.ContainsFunc(d.Effects, func(e operation.Effect) bool { return touches(&e, paths) })
		if wrote && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "the policies"
	}
	return strings.Join(names, " and ")
}

// touches reports whether an effect concerns one of the paths.
func touches(effect *operation.Effect, paths []operation.Path) bool {
	wrote := []string{effect.Path}
	if len(effect.Keys) > 0 {
		wrote = wrote[:0]
		for _, key := range effect.Keys {
			wrote = append(wrote, effect.Path+"/"+operation.EscapeToken(key))
		}
	}
	for _, text := range wrote {
		path, err := operation.ParsePath(text)
		if err != nil {
			// A key that is no token of a path: the map as a whole counts.
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
