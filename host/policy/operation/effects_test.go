package operation_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/policy/document"
	"github.com/longshore-dev/longshore/host/policy/operation"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// Effects name every change and nothing else: a document without the fields that effects
// name is unchanged, and every key that an effect names did change.
func TestEffectsAreExact(t *testing.T) {
	changed := 0
	for seed := range uint64(5 * rounds) {
		s := newSource(seed)
		_, operations := s.policy(t)
		doc := decode(t, s.deepDoc())
		after, effects, err := operation.Apply(doc, operations)
		if err != nil {
			continue
		}
		if len(effects) == 0 {
			require.Equal(t, encode(t, doc), encode(t, after), "seed %d", seed)
			continue
		}
		changed++
		current := doc
		for i := range operations {
			next, own, err := operation.Apply(current, operations[i:i+1])
			require.NoError(t, err)
			require.Equal(t, document.Equal(current, next), len(own) == 0, "seed %d: an operation that changed nothing has no effect: %v", seed, operations[i])
			require.Equal(t, blank(t, current, own), blank(t, next, own), "seed %d: beside %v", seed, own)
			for _, effect := range own {
				for _, key := range effect.Keys {
					one := operation.Effect{Verb: effect.Verb, Path: effect.Path, Keys: []string{key}}
					rest := withoutKey(effect, key)
					require.NotEqual(t, blank(t, current, rest), blank(t, next, rest), "seed %d: key %q of %v did not change", seed, key, one)
				}
			}
			current = next
		}
	}
	assert.Greater(t, changed, rounds/2, "too few documents changed")
}

// withoutKey returns the effect without one of its keys, or nothing if no key is left.
func withoutKey(effect operation.Effect, key string) []operation.Effect {
	var keys []string
	for _, other := range effect.Keys {
		if other != key {
			keys = append(keys, other)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	return []operation.Effect{{Verb: effect.Verb, Path: effect.Path, Keys: keys}}
}

// blank encodes a document without the fields that the effects name, and without empty
// objects and lists.
func blank(t *testing.T, doc map[string]any, effects []operation.Effect) string {
	t.Helper()
	for _, effect := range effects {
		path := effect.Path
		next, _, err := operation.Apply(doc, compile(t, contract.Remove(path, effect.Keys...)))
		if err != nil {
			continue // the object has another type now: another effect names it
		}
		doc = next
	}
	pruned, _ := prune(decode(t, encode(t, doc))).(map[string]any)
	return encode(t, pruned)
}

func prune(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			if member = prune(member); member == nil {
				delete(v, name)
			} else {
				v[name] = member
			}
		}
		if len(v) == 0 {
			return nil
		}
	case []any:
		var kept []any
		for _, item := range v {
			if item = prune(item); item != nil {
				kept = append(kept, item)
			}
		}
		if len(kept) == 0 {
			return nil
		}
		return kept
	}
	return value
}
