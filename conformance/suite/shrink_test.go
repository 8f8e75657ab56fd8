package suite

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestShrinkKeepsWhatTheConditionNeeds(t *testing.T) {
	object := map[string]any{
		"a": map[string]any{"b": []any{"x", "y", map[string]any{"c": int64(1), "d": int64(2)}}, "e": "f"},
		"g": "h",
	}
	holds := func(candidate map[string]any) bool {
		a, _ := candidate["a"].(map[string]any)
		b, _ := a["b"].([]any)
		for _, item := range b {
			if members, ok := item.(map[string]any); ok && members["c"] != nil {
				return true
			}
		}
		return false
	}
	got := shrink(object, 100, holds)
	assert.Equal(t, map[string]any{"a": map[string]any{"b": []any{map[string]any{"c": int64(1)}}}}, got)
	assert.Len(t, object, 2, "the argument is as it was")
	assert.Equal(t, object, shrink(object, 0, holds), "no attempts")
}
