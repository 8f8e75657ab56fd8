package chain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/longshore-dev/longshore/host/policy/operation"
)

// guard refuses guarded labels and annotations that a policy sets without a grant of its
// binding. To drop one is no right: filters do.
func (c *Chains) guard(l *link, before, after map[string]any, effects []operation.Effect) error {
	if c.options.GuardedKey == nil || !slices.ContainsFunc(effects, func(e operation.Effect) bool { return strings.HasPrefix(e.Path, "/metadata") }) {
		return nil
	}
	for _, field := range []string{"labels", "annotations"} {
		old := object(metadataMap(before, field))
		for key, value := range object(metadataMap(after, field)) {
			if c.options.GuardedKey(key) && !operation.Equal(old[key], value) && !l.grants("/metadata/"+field, key) {
				return fmt.Errorf("it sets metadata.%s[%q], on which runtimes, networks or clouds act: an operator can grant that by naming the key in spec.allow.writes[].keys", field, key)
			}
		}
	}
	return nil
}

// grants reports whether the binding allows to write a key of labels or annotations by its
// name.
func (l *link) grants(path, key string) bool {
	for _, rule := range l.Allow.Writes {
		if rule.Path == path && slices.Contains(rule.Keys, key) || rule.Path == path+"/"+operation.EscapeToken(key) {
			return true
		}
	}
	return false
}
