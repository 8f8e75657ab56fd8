package operation_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/policy/operation"
)

func TestSplit(t *testing.T) {
	text := ` { "kind" : "Pod" , "metadata":{"name":"a","labels":{"k":"}\"{"},"gone":null},"spec":{"n":[1,{"x":[]}],"f":-1.5e3 , "b":true}, "e\u0041\"":"\\", "status": {} }`
	doc, err := operation.Split([]byte(text), "metadata", "spec", "absent")
	require.NoError(t, err)
	assert.Equal(t, map[string]any{
		"kind":     json.RawMessage(`"Pod"`),
		"metadata": map[string]any{"name": json.RawMessage(`"a"`), "labels": json.RawMessage(`{"k":"}\"{"}`)},
		"spec":     map[string]any{"n": json.RawMessage(`[1,{"x":[]}]`), "f": json.RawMessage(`-1.5e3`), "b": json.RawMessage(`true`)},
		`eA"`:      json.RawMessage(`"\\"`),
		"status":   json.RawMessage(`{}`),
	}, doc)
	deep := `{"a":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `,"spec":{"b":"` + "\xff" + `"}}`
	doc, err = operation.Split([]byte(deep), "spec")
	require.NoError(t, err, "what is unusual is read all the same")
	assert.Equal(t, map[string]any{"a": json.RawMessage(deep[5:605]), "spec": map[string]any{"b": json.RawMessage("\"\xff\"")}}, doc)
	empty, err := operation.Split([]byte(` { } `))
	require.NoError(t, err)
	assert.Empty(t, empty)
	for name, tc := range map[string]struct{ text, wantErr string }{
		"no object":             {text: `[]`, wantErr: "no object"},
		"null":                  {text: `null`, wantErr: "no object"},
		"nothing":               {text: ``, wantErr: "unexpected end of JSON input"},
		"cut in a string":       {text: `{"a":"b`, wantErr: "unexpected end of JSON input"},
		"cut after a value":     {text: `{"a":"b"`, wantErr: "unexpected end of JSON input"},
		"cut in a list":         {text: `{"a":[`, wantErr: "unexpected end of JSON input"},
		"more than one":         {text: `{"a":1}{}`, wantErr: "after top-level value"},
		"no name":               {text: `{1:2}`, wantErr: "looking for beginning of object key string"},
		"no value":              {text: `{"a"}`, wantErr: "after object key"},
		"bad text further down": {text: `{"spec":{"a":[1,{"b":01}]}}`, wantErr: "invalid character '1'"},
		"a member that is none": {text: `{"spec":[]}`, wantErr: "spec: the JSON text is no object"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := operation.Split([]byte(tc.text), "spec")
			require.ErrorContains(t, err, tc.wantErr)
		})
	}
}

// FuzzSplit holds Split to encoding/json on valid objects, and to not panicking on
// others.
func FuzzSplit(f *testing.F) {
	f.Add(`{"a":{"b":[1,2,{"c":"d\"}"}]},"e":null,"f":1}`)
	f.Add(`{"a":"\\\\","a":2}`)
	f.Add(`{"a":`)
	f.Add(`{"":[0,0`)
	f.Add(`{"b":"\x","c":"\ud800","d":"\\é"}`)
	f.Fuzz(func(t *testing.T, text string) {
		doc, err := operation.Split([]byte(text), "a")
		var want map[string]json.RawMessage
		if json.Unmarshal([]byte(text), &want) != nil || want == nil {
			require.Error(t, err)
			return
		}
		if raw, ok := want["a"]; ok && raw[0] != '{' && string(raw) != "null" {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		for name, raw := range want {
			if string(raw) == "null" {
				continue
			}
			got, err := operation.Normalize(doc[name])
			if err != nil {
				continue // a number beyond float64
			}
			expected, err := operation.Decode(raw)
			require.NoError(t, err)
			require.True(t, operation.Equal(expected, got), "%s: %v and %v", name, expected, got)
		}
	})
}
