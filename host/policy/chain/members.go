package chain

import (
	"maps"
	"slices"

	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/operation"
)

// zeroStats are the statistics of an answer that cost no call.
var zeroStats engine.Stats

// object returns a value as an object, nil when it is none.
func object(value any) map[string]any {
	normalized, err := operation.Normalize(value)
	if err != nil {
		return nil
	}
	members, _ := normalized.(map[string]any)
	return members
}

// metadataMap returns a member of a document's metadata.
func metadataMap(doc map[string]any, field string) any { return object(doc["metadata"])[field] }

// withMember returns a copy of an object with one member replaced; nil drops it.
func withMember(members map[string]any, key string, value any) map[string]any {
	next := make(map[string]any, len(members)+1)
	maps.Copy(next, members)
	if value == nil {
		delete(next, key)
	} else {
		next[key] = value
	}
	return next
}

func sorted(keys []string) []string {
	slices.Sort(keys)
	return keys
}

// withoutKept leaves out of the effects the keys that were put back.
func withoutKept(effects []operation.Effect, kept []string) []operation.Effect {
	if len(kept) == 0 {
		return effects
	}
	var remaining []operation.Effect
	for _, effect := range effects {
		had := len(effect.Keys)
		effect.Keys = slices.DeleteFunc(slices.Clone(effect.Keys), func(key string) bool {
			return slices.Contains(kept, effect.Path+"/"+operation.EscapeToken(key))
		})
		if had == 0 || len(effect.Keys) > 0 {
			remaining = append(remaining, effect)
		}
	}
	return remaining
}
