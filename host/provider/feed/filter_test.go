package feed

import (
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

func TestTheEndOfTheInitialEvents(t *testing.T) {
	const annotated = `"object":{"metadata":{"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}}}}`
	for raw, want := range map[string]bool{
		`{"type":"BOOKMARK",` + annotated:                                   true,
		`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}`: false,
		`{"type":"ADDED",` + annotated:                                      false,
	} {
		e, err := parse([]byte(raw))
		require.NoError(t, err)
		assert.Equal(t, want, e.endsInitial, raw)
	}
}
