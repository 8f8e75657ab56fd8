package jsonvalue

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// common are texts that the reader must accept.
var common = []string{
	`{"a":[1,-2.5e+3,true,false,null,"x\n\u00e9\ud83d\ude00"],"b":{}}`, `[]`, `""`, ` 0 `, `"é😀"`, `{"":""}`, `-0`, `1e2`, `[[],{}]`,
	`9223372036854775807`, `9223372036854775808`, `{"a":1,"a":2}`, `{"a\n":1}`, `null`, `"\ud800"`, `{"a":{"b":[1,2,{"c":"d\"}"}]},"e":null,"f":1}`,
	`{"a":"\\\\","a":2}`, `{"a":1,"a":null}`,
}

// uncommon are texts that the reader must leave to encoding/json.
var uncommon = []string{
	``, `01`, `{"a":1,}`, "\"\xff\"", `{"a" 1}`, `[1 2]`, `nul`, `-`, `1.`, `1e`, `.5`, `+1`, `"\x"`, "\"\x01\"", `{"a":1}{`, `[`, `"`, `"\`, `{"a":`,
	`[0,0`, `{1:2}`, `1e999`, `tru`, `[1,]`, strings.Repeat("[", 200) + strings.Repeat("]", 200), `{"a":1]`, "\x00", `truefalse`, `{"":[0,0`,
	`{"b":"\x","c":"\ud800","d":"\\é"}`,
}

// requireSameAsEncodingJSON compares all functions with encoding/json, and returns whether
// the reader accepted the text.
func requireSameAsEncodingJSON(t *testing.T, text string) bool {
	t.Helper()
	want, wantErr := decodeSlowly([]byte(text))
	got, err := Decode([]byte(text))
	if wantErr != nil {
		require.EqualError(t, err, wantErr.Error(), "%q", text)
	} else {
		require.NoError(t, err, "%q", text)
	}
	require.Equal(t, want, got, "%q", text)
	requireSameMembers(t, text)
	value := reader{text: []byte(text)}
	_, readsValue := value.value()
	skipped := reader{text: []byte(text)}
	require.Equal(t, readsValue && value.atEnd(), skipped.skip() && skipped.atEnd() && !outOfRange(wantErr), "%q", text)
	return readsValue && value.atEnd()
}

func outOfRange(err error) bool { return err != nil && strings.Contains(err.Error(), "out of range") }

func requireSameMembers(t *testing.T, text string) {
	t.Helper()
	want, wantErr := splitSlowly([]byte(text), []string{"a"})
	got, err := Split([]byte(text), "a")
	if wantErr != nil {
		require.EqualError(t, err, wantErr.Error(), "%q", text)
		return
	}
	require.NoError(t, err, "%q", text)
	require.Equal(t, want, got, "%q", text)
}

func TestTheReaderAgreesWithEncodingJSON(t *testing.T) {
	for _, text := range common {
		assert.True(t, requireSameAsEncodingJSON(t, text), "the reader did not accept %q", text)
	}
	for _, text := range uncommon {
		assert.False(t, requireSameAsEncodingJSON(t, text), "the reader accepted %q", text)
	}
}

func FuzzRead(f *testing.F) {
	for _, seeds := range [][]string{common, uncommon} {
		for _, seed := range seeds {
			f.Add(seed)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		requireSameAsEncodingJSON(t, text)
		Depth([]byte(text))
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
