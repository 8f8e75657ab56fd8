package chain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/longshore-dev/longshore/host/policy/document"
	"github.com/longshore-dev/longshore/host/policy/operation"
)

// metadataFields are the members of an object's metadata with reserved and guarded keys.
var metadataFields = []string{"labels", "annotations"}

func changesMetadata(effects []operation.Effect) bool {
	return slices.ContainsFunc(effects, func(e operation.Effect) bool { return strings.HasPrefix(e.Path, "/metadata") })
}

// restoreReservedKeys restores reserved label and annotation keys that a policy changed,
// and returns their paths.
func (c *Chains) restoreReservedKeys(before, after map[string]any, effects []operation.Effect) (map[string]any, []string, error) {
	if c.options.ReservedKey == nil || !changesMetadata(effects) {
		return after, nil, nil
	}
	var paths []string
	for _, field := range metadataFields {
		restored, keys, err := c.restoreKeys(metadataField(before, field), metadataField(after, field))
		if err != nil {
			return nil, nil, fmt.Errorf("reading metadata.%s: %w", field, err)
		}
		if len(keys) == 0 {
			continue
		}
		for _, key := range keys {
			paths = append(paths, "/metadata/"+field+"/"+operation.EscapeToken(key))
		}
		after = document.With(after, "metadata", document.With(asObject(after["metadata"]), field, restored))
	}
	return after, paths, nil
}

// restoreKeys returns a map with the reserved keys of before, and the keys that differed.
func (c *Chains) restoreKeys(before, after any) (map[string]any, []string, error) {
	restored, err := document.Object(after)
	if err != nil {
		return nil, nil, err
	}
	old, changed := asObject(before), restored
	var keys []string
	for key, value := range old {
		if c.options.ReservedKey(key) && !document.Equal(changed[key], value) {
			keys = append(keys, key)
			restored = document.With(restored, key, value)
		}
	}
	for key := range changed {
		if _, had := old[key]; !had && c.options.ReservedKey(key) {
			keys = append(keys, key)
			restored = document.With(restored, key, nil)
		}
	}
	slices.Sort(keys)
	return restored, keys, nil
}

// checkGuardedKeys returns an error if a policy sets a guarded label or annotation that its
// binding does not grant. Removing one needs no grant.
func (c *Chains) checkGuardedKeys(l *link, before, after map[string]any, effects []operation.Effect) error {
	if c.options.GuardedKey == nil || !changesMetadata(effects) {
		return nil
	}
	for _, field := range metadataFields {
		old := asObject(metadataField(before, field))
		for key, value := range asObject(metadataField(after, field)) {
			if c.options.GuardedKey(key) && !document.Equal(old[key], value) && !l.grants("/metadata/"+field, key) {
				return fmt.Errorf("the policy sets metadata.%s[%q], on which runtimes, networks or clouds act: an operator can grant that by naming the key in spec.allow.writes[].keys", field, key)
			}
		}
	}
	return nil
}

// grants reports whether the binding allows by name to write a key of labels or annotations.
func (l *link) grants(path, key string) bool {
	for _, rule := range l.Allow.Writes {
		if rule.Path == path && slices.Contains(rule.Keys, key) || rule.Path == path+"/"+operation.EscapeToken(key) {
			return true
		}
	}
	return false
}

// withoutKeys removes restored keys from effects, and effects without any other key.
func withoutKeys(effects []operation.Effect, restored []string) []operation.Effect {
	if len(restored) == 0 {
		return effects
	}
	var left []operation.Effect
	for _, effect := range effects {
		had := len(effect.Keys)
		effect.Keys = slices.DeleteFunc(slices.Clone(effect.Keys), func(key string) bool {
			return slices.Contains(restored, effect.Path+"/"+operation.EscapeToken(key))
		})
		if had == 0 || len(effect.Keys) > 0 {
			left = append(left, effect)
		}
	}
	return left
}

// asObject returns a value as an object, nil if it is not one.
func asObject(value any) map[string]any {
	object, err := document.Object(value)
	if err != nil {
		return nil
	}
	return object
}

// metadataField returns a member of a document's metadata.
func metadataField(doc map[string]any, field string) any { return asObject(doc["metadata"])[field] }
