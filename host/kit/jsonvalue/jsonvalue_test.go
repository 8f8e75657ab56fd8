package jsonvalue

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDecode(t *testing.T) {
	for text, want := range map[string]any{
		`{"a":[1,-2.5e+3,true,false,null,"x\n\u00e9\ud83d\ude00"],"b":{}}`: map[string]any{
			"a": []any{int64(1), -2500.0, true, false, nil, "x\né😀"}, "b": map[string]any{},
		},
		`{"a":1,"A":2,"a":3}`: map[string]any{"a": int64(3), "A": int64(2)},
		` null `:              nil,
		`"\ud800"`:            "\ufffd",
	} {
		got, err := Decode([]byte(text))
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{``, `01`, `{"a":1,}`, `[1 2]`, `nul`, `1.`, `+1`, `"\x"`, "\"\x01\"", `{"a":1}{`, `[`, `{1:2}`, `1e999`, "\x00"} {
		_, err := Decode([]byte(text))
		assert.Error(t, err, text)
	}
}

// What can be decoded is laid out with the same members.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{`{"a":{"b":[1,2,{"c":"d\"}"}]},"e":null,"f":1}`, `{"a":1,"a":null}`, `{"a":[],"b":"\x"}`, `[[],{}]`, `1e999`, strings.Repeat("[", 200)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		Depth([]byte(text))
		value, err := Decode([]byte(text))
		members, isObject := value.(map[string]any)
		if err != nil || !isObject {
			return
		}
		split, err := Split([]byte(text))
		require.NoError(t, err)
		for name, raw := range split {
			member, err := Decode(raw.(json.RawMessage))
			require.NoError(t, err)
			require.Equal(t, members[name], member)
			delete(members, name)
		}
		for name, value := range members {
			require.Nil(t, value, "%s is left out, and not null", name)
		}
	})
}

func TestDecodeKeepsIntegersExact(t *testing.T) {
	for text, want := range map[string]any{
		"9223372036854775807": int64(9223372036854775807), "9007199254740993": int64(9007199254740993), "-1": int64(-1),
		"9223372036854775808": float64(9223372036854775808), "1.0": float64(1), "1e2": float64(100),
	} {
		got, err := Decode([]byte(text))
		require.NoError(t, err)
		assert.Equal(t, want, got, text)
	}
}

func TestSplit(t *testing.T) {
	text := ` { "kind" : "Pod" , "metadata":{"name":"a","labels":{"k":"}\"{"},"gone":null},"spec":{"n":[1,{"x":[]}],"f":-1.5e3 , "b":true}, "e\u0041\"":"\\", "status": {} }`
	doc, err := Split([]byte(text), "metadata", "spec", "absent")
	require.NoError(t, err)
	assert.Equal(t, map[string]any{
		"kind":     json.RawMessage(`"Pod"`),
		"metadata": map[string]any{"name": json.RawMessage(`"a"`), "labels": json.RawMessage(`{"k":"}\"{"}`)},
		"spec":     map[string]any{"n": json.RawMessage(`[1,{"x":[]}]`), "f": json.RawMessage(`-1.5e3`), "b": json.RawMessage(`true`)},
		`eA"`:      json.RawMessage(`"\\"`),
		"status":   json.RawMessage(`{}`),
	}, doc)
	deep := `{"a":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `,"spec":{"b":"` + "\xff" + `"}}`
	doc, err = Split([]byte(deep), "spec")
	require.NoError(t, err, "encoding/json accepts it")
	assert.Equal(t, map[string]any{"a": json.RawMessage(deep[5:605]), "spec": map[string]any{"b": json.RawMessage("\"\xff\"")}}, doc)
	empty, err := Split([]byte(` { } `))
	require.NoError(t, err)
	assert.Empty(t, empty)
}

func TestSplitRejects(t *testing.T) {
	for name, tc := range map[string]struct{ text, wantErr string }{
		"a list":                   {text: `[]`, wantErr: "not a JSON object"},
		"null":                     {text: `null`, wantErr: "not a JSON object"},
		"empty text":               {text: ``, wantErr: "unexpected end of JSON input"},
		"text cut in a string":     {text: `{"a":"b`, wantErr: "unexpected end of JSON input"},
		"text cut after a value":   {text: `{"a":"b"`, wantErr: "unexpected end of JSON input"},
		"text cut in a list":       {text: `{"a":[`, wantErr: "unexpected end of JSON input"},
		"two values":               {text: `{"a":1}{}`, wantErr: "after top-level value"},
		"a member without a name":  {text: `{1:2}`, wantErr: "looking for beginning of object key string"},
		"a member without a value": {text: `{"a"}`, wantErr: "after object key"},
		"invalid text deep inside": {text: `{"spec":{"a":[1,{"b":01}]}}`, wantErr: "invalid character '1'"},
		"a list as a named member": {text: `{"spec":[]}`, wantErr: "spec: not a JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Split([]byte(tc.text), "spec")
			require.ErrorContains(t, err, tc.wantErr)
		})
	}
}

func TestDepth(t *testing.T) {
	for text, want := range map[string]int{`1`: 0, `{}`: 1, `[{"a":[]}]`: 3, `"[[["`: 0, `{"a":"\"[","b":[]}`: 2, `[]]]][`: 1} {
		assert.Equal(t, want, Depth([]byte(text)), text)
	}
}
