package operation_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/kit/jsonvalue"
	"github.com/longshore-dev/longshore/host/policy/document"
	"github.com/longshore-dev/longshore/host/policy/operation"
	"github.com/longshore-dev/longshore/sdk/contract"
)

func decode(tb testing.TB, text string) map[string]any {
	tb.Helper()
	value, err := jsonvalue.Decode([]byte(text))
	require.NoError(tb, err)
	doc, ok := value.(map[string]any)
	require.True(tb, ok)
	return doc
}

func encode(tb testing.TB, doc map[string]any) string {
	tb.Helper()
	data, err := json.Marshal(doc)
	require.NoError(tb, err)
	return string(data)
}

func raw(op contract.Verb, path, value string) contract.Operation {
	return contract.Operation{Op: op, Path: path, Value: json.RawMessage(value)}
}

func nodeAffinity(terms string) string {
	return `{"na":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":` + terms + `}}}`
}

func requirement(key string) string { return `{"key":"` + key + `","operator":"Exists"}` }

func expr(keys ...string) string {
	parts := make([]string, len(keys))
	for i, key := range keys {
		parts[i] = requirement(key)
	}
	return `{"matchExpressions":[` + strings.Join(parts, ",") + `]}`
}

func TestVerbs(t *testing.T) {
	pinned := `{"matchExpressions":[` + requirement("a") + `],"matchFields":[{"key":"metadata.name","operator":"In","values":["n1"]}]}`
	for name, tc := range map[string]struct {
		doc         string
		op          contract.Operation
		want        string
		wantEffects []operation.Effect
	}{
		"set creates parents": {
			doc: `{}`, op: raw("set", "/a/b/c", `1`), want: `{"a":{"b":{"c":1}}}`,
			wantEffects: []operation.Effect{{Verb: "set", Path: "/a/b/c"}},
		},
		"set of the same value has no effect":  {doc: `{"a":{"x":1}}`, op: raw("set", "/a", `{"x":1.0}`), want: `{"a":{"x":1}}`},
		"set replaces and does not merge":      {doc: `{"a":{"x":1}}`, op: raw("set", "/a", `{"y":2}`), want: `{"a":{"y":2}}`, wantEffects: []operation.Effect{{Verb: "set", Path: "/a"}}},
		"set in the selected item":             {doc: `{"l":[{"name":"x"},{"name":"y","i":1}]}`, op: raw("set", "/l[name=y]/i", `2`), want: `{"l":[{"name":"x"},{"i":2,"name":"y"}]}`, wantEffects: []operation.Effect{{Verb: "set", Path: "/l[name=y]/i"}}},
		"set in all items":                     {doc: `{"l":[{"name":"x"},{"name":"y"}]}`, op: raw("set", "/l[*]/i", `2`), want: `{"l":[{"i":2,"name":"x"},{"i":2,"name":"y"}]}`, wantEffects: []operation.Effect{{Verb: "set", Path: "/l[*]/i"}}},
		"set in a missing item":                {doc: `{"l":[{"name":"x"}]}`, op: raw("set", "/l[name=z]/i", `2`), want: `{"l":[{"name":"x"}]}`},
		"set in an item of an absent list":     {doc: `{}`, op: raw("set", "/l[*]/i", `2`), want: `{}`},
		"large integers stay exact":            {doc: `{"n":9007199254740993}`, op: raw("set", "/m", `9007199254740995`), want: `{"m":9007199254740995,"n":9007199254740993}`, wantEffects: []operation.Effect{{Verb: "set", Path: "/m"}}},
		"remove a field":                       {doc: `{"a":{"b":1,"c":2}}`, op: contract.Remove("/a/b"), want: `{"a":{"c":2}}`, wantEffects: []operation.Effect{{Verb: "remove", Path: "/a/b"}}},
		"remove of an absent field":            {doc: `{"a":{}}`, op: contract.Remove("/a/b/c"), want: `{"a":{}}`},
		"remove of existing keys":              {doc: `{"a":{"b":1,"c":2}}`, op: contract.Remove("/a", "z", "b"), want: `{"a":{"c":2}}`, wantEffects: []operation.Effect{{Verb: "remove", Path: "/a", Keys: []string{"b"}}}},
		"remove an item":                       {doc: `{"l":[{"name":"x"},{"name":"y"}]}`, op: contract.Remove("/l[name=x]"), want: `{"l":[{"name":"y"}]}`, wantEffects: []operation.Effect{{Verb: "remove", Path: "/l[name=x]"}}},
		"merge keeps other keys":               {doc: `{"a":{"b":1}}`, op: raw("merge", "/a", `{"c":2,"b":1}`), want: `{"a":{"b":1,"c":2}}`, wantEffects: []operation.Effect{{Verb: "merge", Path: "/a", Keys: []string{"c"}}}},
		"merge into an absent map":             {doc: `{}`, op: raw("merge", "/a", `{"c":2}`), want: `{"a":{"c":2}}`, wantEffects: []operation.Effect{{Verb: "merge", Path: "/a", Keys: []string{"c"}}}},
		"merge of an empty map":                {doc: `{}`, op: raw("merge", "/a", `{}`), want: `{}`},
		"a null field is absent":               {doc: `{"a":null}`, op: raw("merge", "/a", `{"c":2}`), want: `{"a":{"c":2}}`, wantEffects: []operation.Effect{{Verb: "merge", Path: "/a", Keys: []string{"c"}}}},
		"ensure appends missing items (T5)":    {doc: `{"l":[{"k":1}]}`, op: raw("ensure", "/l", `[{"k":1},{"k":2},{"k":2}]`), want: `{"l":[{"k":1},{"k":2}]}`, wantEffects: []operation.Effect{{Verb: "ensure", Path: "/l"}}},
		"ensure of existing items":             {doc: `{"l":[{"k":1,"v":"a"}]}`, op: raw("ensure", "/l", `[{"v":"a","k":1}]`), want: `{"l":[{"k":1,"v":"a"}]}`},
		"require without affinity":             {doc: `{}`, op: raw("require", "/na", `[`+expr("a")+`,`+expr("b")+`]`), want: nodeAffinity(`[` + expr("a") + `,` + expr("b") + `]`), wantEffects: []operation.Effect{{Verb: "require", Path: "/na"}}},
		"require is a product, old outermost":  {doc: nodeAffinity(`[` + expr("x") + `,` + expr("y") + `]`), op: raw("require", "/na", `[`+expr("a")+`,`+expr("b")+`]`), want: nodeAffinity(`[` + expr("x", "a") + `,` + expr("x", "b") + `,` + expr("y", "a") + `,` + expr("y", "b") + `]`), wantEffects: []operation.Effect{{Verb: "require", Path: "/na"}}},
		"require keeps matchFields (T4)":       {doc: nodeAffinity(`[` + pinned + `]`), op: raw("require", "/na", `[`+expr("b")+`]`), want: nodeAffinity(`[` + strings.Replace(pinned, requirement("a"), requirement("a")+`,`+requirement("b"), 1) + `]`), wantEffects: []operation.Effect{{Verb: "require", Path: "/na"}}},
		"require absorbs implied terms":        {doc: nodeAffinity(`[` + expr("x", "b") + `,` + expr("y") + `]`), op: raw("require", "/na", `[`+expr("a")+`,`+expr("b")+`]`), want: nodeAffinity(`[` + expr("x", "b") + `,` + expr("y", "a") + `,` + expr("y", "b") + `]`), wantEffects: []operation.Effect{{Verb: "require", Path: "/na"}}},
		"require of fields is not absorbed":    {doc: nodeAffinity(`[` + expr("a") + `]`), op: raw("require", "/na", `[`+pinned+`]`), want: nodeAffinity(`[` + pinned + `]`), wantEffects: []operation.Effect{{Verb: "require", Path: "/na"}}},
		"an empty new term matches nothing":    {doc: nodeAffinity(`[` + expr("x") + `]`), op: raw("require", "/na", `[{},`+expr("a")+`]`), want: nodeAffinity(`[` + expr("x", "a") + `]`), wantEffects: []operation.Effect{{Verb: "require", Path: "/na"}}},
		"only empty new terms match nothing":   {doc: nodeAffinity(`[` + expr("x") + `]`), op: raw("require", "/na", `[{}]`), want: nodeAffinity(`[{}]`), wantEffects: []operation.Effect{{Verb: "require", Path: "/na"}}},
		"an empty old term still matches none": {doc: nodeAffinity(`[{}]`), op: raw("require", "/na", `[`+expr("a")+`]`), want: nodeAffinity(`[{}]`)},
		"the order of values has no meaning": {
			doc: nodeAffinity(`[{"matchExpressions":[{"key":"z","operator":"In","values":["1","2"]}]}]`),
			op:  raw("require", "/na", `[{"matchExpressions":[{"key":"z","operator":"In","values":["2","1"]}]}]`), want: nodeAffinity(`[{"matchExpressions":[{"key":"z","operator":"In","values":["1","2"]}]}]`),
		},
	} {
		t.Run(name, func(t *testing.T) {
			doc := decode(t, tc.doc)
			before := encode(t, doc)
			ops := compile(t, tc.op)

			got, effects, err := operation.Apply(doc, ops)
			require.NoError(t, err)
			assert.JSONEq(t, tc.want, encode(t, got))
			assert.Equal(t, tc.wantEffects, effects)
			assert.Equal(t, before, encode(t, doc), "the input is not altered")

			again, effects, err := operation.Apply(got, ops)
			require.NoError(t, err)
			assert.JSONEq(t, tc.want, encode(t, again), "a second application changes nothing")
			assert.Empty(t, effects)
		})
	}
}

func TestSiblingsAreKept(t *testing.T) {
	doc := decode(t, `{"na":{"preferred":[1],"requiredDuringSchedulingIgnoredDuringExecution":{"unknown":1,"nodeSelectorTerms":[{"new":true,"matchExpressions":[`+requirement("x")+`]}]}}}`)
	got, _, err := operation.Apply(doc, compile(t, raw("require", "/na", `[`+expr("a")+`]`)))
	require.NoError(t, err)
	assert.JSONEq(t, `{"na":{"preferred":[1],"requiredDuringSchedulingIgnoredDuringExecution":{"unknown":1,"nodeSelectorTerms":[{"new":true,"matchExpressions":[`+requirement("x")+`,`+requirement("a")+`]}]}}}`, encode(t, got))
}

type toleration struct {
	Key     string `json:"key,omitempty"`
	Seconds *int64 `json:"tolerationSeconds,omitempty"`
}

func TestTypedValuesAreConvertedWhenNeeded(t *testing.T) {
	seconds := int64(5)
	untouched := &toleration{Key: "same"}
	doc := map[string]any{
		"tolerations": []toleration{{Key: "a", Seconds: &seconds}},
		"labels":      map[string]string{"a": "1"},
		"other":       untouched,
	}
	got, effects, err := operation.Apply(doc, compile(t,
		raw("ensure", "/tolerations", `[{"key":"a","tolerationSeconds":5},{"key":"b"}]`),
		contract.Remove("/labels", "a"),
		raw("set", "/other", `{"key":"same"}`)))
	require.NoError(t, err)
	assert.JSONEq(t, `{"tolerations":[{"key":"a","tolerationSeconds":5},{"key":"b"}],"labels":{},"other":{"key":"same"}}`, encode(t, got))
	assert.Len(t, effects, 2)
	assert.Same(t, untouched, got["other"], "unchanged values are not converted")
	assert.Equal(t, map[string]string{"a": "1"}, doc["labels"])
}

func TestCompileRejectsInvalidOperations(t *testing.T) {
	many := make([]contract.Operation, contract.MaxOperations+1)
	for name, tc := range map[string]struct {
		ops     []contract.Operation
		wantErr string
	}{
		"too many":                {ops: many, wantErr: "257 operations, more than the allowed 256"},
		"too many keys":           {ops: []contract.Operation{contract.Remove("/a", make([]string, operation.MaxKeys+1)...)}, wantErr: "1025 keys, more than the allowed 1024"},
		"an unknown verb":         {ops: []contract.Operation{raw("copy", "/a", `1`)}, wantErr: `operation 0 (copy /a): unknown verb "copy"`},
		"a bad path":              {ops: []contract.Operation{contract.Remove("/a"), contract.Remove("b")}, wantErr: `operation 1 (remove b): path "b" must begin`},
		"no value":                {ops: []contract.Operation{{Op: "set", Path: "/a"}}, wantErr: "value is missing"},
		"broken JSON":             {ops: []contract.Operation{raw("set", "/a", `{`)}, wantErr: "decoding JSON"},
		"two values":              {ops: []contract.Operation{raw("set", "/a", `1 2`)}, wantErr: "after top-level value"},
		"set to null":             {ops: []contract.Operation{raw("set", "/a", `null`)}, wantErr: "use remove"},
		"keys with set":           {ops: []contract.Operation{{Op: "set", Path: "/a", Keys: []string{"k"}, Value: []byte("1")}}, wantErr: "keys are allowed for remove only"},
		"value with remove":       {ops: []contract.Operation{raw("remove", "/a", `1`)}, wantErr: "remove takes no value"},
		"an empty key":            {ops: []contract.Operation{contract.Remove("/a", "")}, wantErr: "a key is empty"},
		"merge of a list":         {ops: []contract.Operation{raw("merge", "/a", `[]`)}, wantErr: "the value of a merge must be an object"},
		"merge of null":           {ops: []contract.Operation{raw("merge", "/a", `{"k":null}`)}, wantErr: `key "k" is null`},
		"ensure of an object":     {ops: []contract.Operation{raw("ensure", "/a", `{}`)}, wantErr: "the value of an ensure must be a list"},
		"ensure of null":          {ops: []contract.Operation{raw("ensure", "/a", `[null]`)}, wantErr: "an item is null"},
		"require of nothing":      {ops: []contract.Operation{raw("require", "/a", `[]`)}, wantErr: "at least one"},
		"require of a string":     {ops: []contract.Operation{raw("require", "/a", `["x"]`)}, wantErr: "node selector term 0 is not an object"},
		"require of other fields": {ops: []contract.Operation{raw("require", "/a", `[{"matchLabels":{}}]`)}, wantErr: `unknown field "matchLabels"`},
		"deep nesting":            {ops: []contract.Operation{raw("set", "/a", strings.Repeat("[", 100)+strings.Repeat("]", 100))}, wantErr: "nested 100 deep"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := operation.Compile(tc.ops)
			require.ErrorContains(t, err, tc.wantErr)
		})
	}
}

func TestApplyRejectsDocumentsOfAnotherShape(t *testing.T) {
	var long []string
	for i := range 20 {
		long = append(long, expr("z"+strconv.Itoa(i)))
	}
	terms := `[` + strings.Join(long, ",") + `]`
	others := strings.ReplaceAll(terms, `"z`, `"o`)
	for name, tc := range map[string]struct {
		doc string
		op  contract.Operation
		// found and want are the types of a [document.TypeError]; without them, the object is
		// too large.
		found, want string
	}{
		"a key of a list":            {doc: `{"l":[1]}`, op: raw("set", "/l/x", `1`), found: "a list", want: "an object"},
		"an item of an object":       {doc: `{"l":{}}`, op: raw("set", "/l[*]/x", `1`), found: "an object", want: "a list"},
		"merge into a string":        {doc: `{"l":"x"}`, op: raw("merge", "/l", `{"a":1}`), found: "a string", want: "an object"},
		"ensure in a number":         {doc: `{"l":1}`, op: raw("ensure", "/l", `[1]`), found: "a number", want: "a list"},
		"require on broken affinity": {doc: `{"na":{"requiredDuringSchedulingIgnoredDuringExecution":[]}}`, op: raw("require", "/na", `[`+expr("a")+`]`), found: "a list", want: "an object"},
		"a large product":            {doc: nodeAffinity(terms), op: raw("require", "/na", others)},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := operation.Apply(decode(t, tc.doc), compile(t, tc.op))
			require.ErrorContains(t, err, fmt.Sprintf("operation 0 (%s %s): ", tc.op.Op, tc.op.Path))
			if tc.found == "" {
				require.ErrorIs(t, err, operation.ErrTooLarge)
				return
			}
			var mistyped *document.TypeError
			require.ErrorAs(t, err, &mistyped)
			assert.Equal(t, &document.TypeError{Found: tc.found, Want: tc.want}, mistyped)
		})
	}
	_, _, err := operation.Apply(decode(t, `{"l":[1]}`), compile(t, raw("set", "/l/x", `1`)))
	require.EqualError(t, err, "operation 0 (set /l/x): found a list, want an object: select items by [name=x] or [*]")
}
