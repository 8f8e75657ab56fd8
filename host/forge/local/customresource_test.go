package local

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
			status, err := CustomResourceStatus(remote)
			require.NoError(t, err)
			assert.Equal(t, tc.want, status)
			assert.Equal(t, before, remote, "the remote object is not altered")
		})
	}
}

// Controllers of the consumer decode what the provider reports.
func TestAHostileStatusOfACustomResourceIsRefused(t *testing.T) {
	status := func(value any) map[string]any {
		return map[string]any{"conditions": []any{map[string]any{"type": "Ready", "lastTransitionTime": value}}, "times": []any{value}}
	}
	for name, tc := range map[string]struct {
		value, want any
		denied      string
	}{
		"a time":                                {value: "2026-11-28T05:00:00Z", want: "2026-11-28T05:00:00Z"},
		"a time in lower case":                  {value: "2026-11-28t05:00:00z", want: "2026-11-28T05:00:00Z"},
		"a time with an offset in lower case":   {value: "2026-11-28t05:00:00.5+01:00", want: "2026-11-28T05:00:00.5+01:00"},
		"a leap second":                         {value: "2026-11-28T23:59:60Z", denied: "a time that does not exist"},
		"an hour that does not exist":           {value: "2026-11-28t99:00:00z", denied: "a time that does not exist"},
		"a day that does not exist":             {value: "2026-02-30T05:00:00Z", denied: "a time that does not exist"},
		"a text that begins as a time":          {value: "2026-11-28t05:00:00z: done", want: "2026-11-28t05:00:00z: done"},
		"an amount":                             {value: "1e3", want: "1e3"},
		"an amount with an exponent":            {value: "1e30000000", denied: "an exponent of three digits or more"},
		"a small amount":                        {value: "1e-30000000", denied: "an exponent of three digits or more"},
		"an exponent with zeros":                {value: "-1.5E+0000000100", denied: "an exponent of three digits or more"},
		"a digest that has an e between digits": {value: "sha256:1e300", want: "sha256:1e300"},
		"a number":                              {value: int64(7), want: int64(7)},
		"nothing":                               {value: nil, want: nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := CustomResourceStatus(&unstructured.Unstructured{Object: map[string]any{"status": status(tc.value)}})
			if tc.denied != "" {
				require.ErrorContains(t, err, tc.denied)
				require.ErrorContains(t, err, "status.")
				return
			}
			require.NoError(t, err)
			assert.Equal(t, status(tc.want), got)
		})
	}
	_, err := CustomResourceStatus(&unstructured.Unstructured{Object: map[string]any{"status": map[string]any{strings.Repeat("x", 1<<20): "1e1000"}}})
	require.Error(t, err)
	assert.Less(t, len(err.Error()), 200, "a key is cut")
}

func TestDeepCopyStatus(t *testing.T) {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	assert.Equal(t, map[string]any{}, DeepCopyStatus(object))
	object.Object["status"] = map[string]any{"a": map[string]any{"b": "c"}}
	status := DeepCopyStatus(object)
	status["a"].(map[string]any)["b"] = "d"
	assert.Equal(t, "c", object.Object["status"].(map[string]any)["a"].(map[string]any)["b"])
}
