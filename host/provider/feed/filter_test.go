package feed

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPasses(t *testing.T) {
	shows := func(namespace string) bool { return namespace == "mine" }
	for name, test := range map[string]struct {
		raw  string
		want bool
	}{
		"an object of the caller":       {`{"type":"ADDED","object":{"metadata":{"namespace":"mine"}}}`, true},
		"a change":                      {`{"type":"MODIFIED","object":{"metadata":{"namespace":"mine"}}}`, true},
		"a deletion":                    {`{"type":"DELETED","object":{"metadata":{"namespace":"mine"}}}`, true},
		"an object of another consumer": {`{"type":"ADDED","object":{"metadata":{"namespace":"other"}}}`, false},
		"the deletion of another":       {`{"type":"DELETED","object":{"metadata":{"namespace":"other"}}}`, false},
		"an object without a namespace": {`{"type":"ADDED","object":{"metadata":{"name":"mine"}}}`, false},
		"the namespace at another path": {`{"type":"ADDED","object":{"namespace":"mine","metadata":{"namespace":"other"}}}`, false},
		"a bookmark":                    {`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1"}}}`, true},
		"an error":                      {`{"type":"ERROR","object":{"kind":"Status","code":410}}`, true},
		"a bookmark with an object":     {`{"type":"BOOKMARK","object":{"metadata":{"namespace":"other"}}}`, false},
		"an unknown type":               {`{"type":"OTHER","object":{"metadata":{"namespace":"mine"}}}`, false},
		"no type":                       {`{}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := parse([]byte(test.raw))
			require.NoError(t, err)
			assert.Equal(t, test.want, passes(e, shows))
		})
	}
	_, err := parse([]byte(`{"type":1}`))
	assert.Error(t, err)
}

func TestScope(t *testing.T) {
	type step struct {
		bound   map[string]string
		refuses string
		forget  bool
		changed bool
		shows   []string
		reviews int
	}
	for name, steps := range map[string][]step{
		"a namespace is added and removed": {
			{bound: map[string]string{"a": "1"}, changed: true, shows: []string{"a"}, reviews: 1},
			{bound: map[string]string{"a": "1", "b": "2"}, changed: true, shows: []string{"a", "b"}, reviews: 1},
			{bound: map[string]string{"b": "2"}, changed: true, shows: []string{"b"}},
		},
		"a changed binding is checked again": {
			{bound: map[string]string{"a": "1"}, changed: true, shows: []string{"a"}, reviews: 1},
			{bound: map[string]string{"a": "2"}, shows: []string{"a"}, reviews: 1},
			{bound: map[string]string{"a": "3"}, refuses: "a", changed: true, reviews: 1},
		},
		"a refused namespace is checked again": {
			{bound: map[string]string{"a": "1"}, refuses: "a", reviews: 1},
			{bound: map[string]string{"a": "1"}, changed: true, shows: []string{"a"}, reviews: 1},
		},
		"a right that ended without a change of the binding ends at the next check of all": {
			{bound: map[string]string{"a": "1"}, changed: true, shows: []string{"a"}, reviews: 1},
			{bound: map[string]string{"a": "1"}, refuses: "a", shows: []string{"a"}},
			{bound: map[string]string{"a": "1"}, refuses: "a", forget: true, changed: true, reviews: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			refuses, reviews := "", 0
			s := newScope(func(_ context.Context, namespace string) bool {
				reviews++
				return namespace != refuses
			})
			for i, step := range steps {
				refuses, reviews = step.refuses, 0
				if step.forget {
					s.forget()
				}
				assert.Equal(t, step.changed, s.update(t.Context(), step.bound), "step %d", i)
				assert.ElementsMatch(t, step.shows, s.namespaces(), "step %d", i)
				assert.Equal(t, step.reviews, reviews, "step %d", i)
			}
		})
	}
}
