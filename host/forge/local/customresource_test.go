package local

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestCustomResourceStatus(t *testing.T) {
	observed := func(generation, ofCondition int64) map[string]any {
		return map[string]any{
			"observedGeneration": generation, "phase": "Ready",
			"conditions": []any{map[string]any{"type": "Ready", "observedGeneration": ofCondition}, map[string]any{"type": "Other"}, "odd"},
		}
	}
	for name, tc := range map[string]struct {
		status     any
		generation int64
		from       string
		want       map[string]any
	}{
		"no status":                               {nil, 1, "1", map[string]any{}},
		"a status that is not an object":          {"Ready", 1, "1", map[string]any{}},
		"the provider has observed the object":    {observed(7, 7), 7, "3", observed(3, 3)},
		"the provider has observed an older one":  {observed(6, 5), 7, "3", observed(2, 2)},
		"a condition is older than the status":    {observed(7, 6), 7, "3", observed(3, 2)},
		"the first local generation":              {observed(1, 1), 2, "1", observed(0, 0)},
		"an object without the local generation":  {observed(7, 7), 7, "", observed(7, 7)},
		"a generation that is not a number":       {map[string]any{"observedGeneration": "7"}, 7, "3", map[string]any{"observedGeneration": "7"}},
		"a status without a generation stays":     {map[string]any{"phase": "Ready"}, 7, "3", map[string]any{"phase": "Ready"}},
		"conditions that are not a list are kept": {map[string]any{"conditions": "x"}, 7, "3", map[string]any{"conditions": "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			remote := &unstructured.Unstructured{Object: map[string]any{}}
			remote.SetGeneration(tc.generation)
			if tc.from != "" {
				remote.SetAnnotations(map[string]string{"policy.longshore.dev/local-generation": tc.from})
			}
			if tc.status != nil {
				remote.Object["status"] = tc.status
			}
			before := remote.DeepCopy()
			assert.Equal(t, tc.want, CustomResourceStatus(remote))
			assert.Equal(t, before, remote, "the remote object is not altered")
		})
	}
}

func TestDeepCopyStatus(t *testing.T) {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	assert.Equal(t, map[string]any{}, DeepCopyStatus(object))
	object.Object["status"] = map[string]any{"a": map[string]any{"b": "c"}}
	status := DeepCopyStatus(object)
	status["a"].(map[string]any)["b"] = "d"
	assert.Equal(t, "c", object.Object["status"].(map[string]any)["a"].(map[string]any)["b"])
}
