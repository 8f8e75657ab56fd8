package feed

import (
	"encoding/json"
	"strings"
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
	for _, raw := range []string{`{"type":1}`, `[]`, `{"type":"ADDED","object":{"metadata":{"namespace":"mine"}}`, ``} {
		_, err := parse([]byte(raw))
		assert.Error(t, err, raw)
	}
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

func TestObjectsHaveNoManagedFieldsOfUpdates(t *testing.T) {
	const fields = `[{"manager":"kubelet","fieldsV1":{"f:status":{}}}]`
	for name, test := range map[string]struct{ raw, want string }{
		"last, as in built-in kinds": {
			`{"type":"ADDED","object":{"metadata":{"name":"a","managedFields":` + fields + `},"spec":{}}}`,
			`{"type":"ADDED","object":{"metadata":{"name":"a"},"spec":{}}}`,
		},
		"in the middle, as in custom resources": {
			`{"type":"ADDED","object":{"metadata":{"generation":1,"managedFields":` + fields + `,"name":"a"}}}`,
			`{"type":"ADDED","object":{"metadata":{"generation":1,"name":"a"}}}`,
		},
		"first": {
			`{"type":"ADDED","object":{"metadata":{"managedFields":` + fields + `,"name":"a"}}}`,
			`{"type":"ADDED","object":{"metadata":{"name":"a"}}}`,
		},
		"alone": {
			`{"type":"ADDED","object":{"metadata":{"managedFields":` + fields + `}}}`,
			`{"type":"ADDED","object":{"metadata":{}}}`,
		},
		"none": {`{"type":"ADDED","object":{"metadata":{"name":"a"}}}`, `{"type":"ADDED","object":{"metadata":{"name":"a"}}}`},
		"in an annotation, which has a copy": {
			`{"type":"ADDED","object":{"metadata":{"annotations":{"copy":"{\"managedFields\":` + `[]}"},"managedFields":` + fields + `}}}`,
			`{"type":"ADDED","object":{"metadata":{"annotations":{"copy":"{\"managedFields\":[]}"}}}}`,
		},
		"beside those of an embedded object": {
			`{"type":"ADDED","object":{"a":{"managedFields":[1]},"metadata":{"managedFields":` + fields + `},"b":{"managedFields":[2]}}}`,
			`{"type":"ADDED","object":{"a":{"managedFields":[1]},"metadata":{},"b":{"managedFields":[2]}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := parse([]byte(test.raw))
			require.NoError(t, err)
			assert.Equal(t, test.want, string(e.raw))
		})
	}
}

// FuzzParse checks that an event means the same without managedFields.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"type":"ADDED","object":{"metadata":{"name":"a","managedFields":[{"manager":"kubelet"}]},"spec":{}}}`))
	f.Add([]byte(`{"type":"ADDED","object":{"metadata":{"managedFields":[],"name":"\"managedFields\":[]"}}}`))
	f.Add([]byte(`{"object":{"spec":{"managedFields":null},"metadata":{"managedFields":null}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		e, err := parse(raw)
		if err != nil {
			return
		}
		var before, after any
		require.NoError(t, json.Unmarshal(raw, &before))
		require.NoError(t, json.Unmarshal(e.raw, &after))
		if !assert.ObjectsAreEqual(before, after) {
			assert.Equal(t, without(before), without(after), "%s", e.raw)
		}
	})
}

// without removes the managedFields from all objects.
func without(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			if strings.EqualFold(key, "managedFields") {
				delete(v, key)
				continue
			}
			v[key] = without(inner)
		}
	case []any:
		for i := range v {
			v[i] = without(v[i])
		}
	}
	return value
}
