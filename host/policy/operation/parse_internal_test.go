package operation

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	must "github.com/stretchr/testify/require"
)

// documents are seeds: usual ones, which the parser must take, and others.
var usual = []string{
	`{"a":[1,-2.5e+3,true,false,null,"x\n\u00e9\ud83d\ude00"],"b":{}}`, `[]`, `""`, ` 0 `, `"é😀"`, `{"":""}`, `-0`, `1e2`, `[[],{}]`,
	`9223372036854775807`, `9223372036854775808`, `{"a":1,"a":2}`, `{"a\n":1}`, `null`, `"\ud800"`,
}

var unusual = []string{
	``, `01`, `{"a":1,}`, "\"\xff\"", `{"a" 1}`, `[1 2]`, `nul`, `-`, `1.`, `1e`, `.5`, `+1`, `"\x"`, "\"\x01\"", `{"a":1}{`, `[`, `"`, `"\`, `{"a":`,
	`[0,0`, `{1:2}`, `1e999`, `tru`, `[1,]`, strings.Repeat("[", 200) + strings.Repeat("]", 200), `{"a":1]`, "\x00", `truefalse`,
}

var responses = []string{
	`{"version":"v1alpha1"}`,
	`{"version":"v1alpha1","operations":[]}`,
	`{"version":"v1alpha1","operations":[{"op":"set","path":"/spec/a","value":{"a":[1,{"b":null}]}},{"op":"remove","path":"/metadata/labels","keys":["a","b\n"]}],"warnings":["w"]}`,
	` { "version" : "v1alpha1" , "deny" : { "reason" : "R" , "message" : "é" } } `,
	`{"version":"v1alpha1","skip":{"reason":"R","message":"m"}}`,
	`{"version":"v1alpha1","operations":[{"op":"ensure","path":"/spec/tolerations","value":[ {"key":"k"} ]}]}`,
	`{"version":"v1alpha1","operations":[{"op":"set","path":"/a","value":null}]}`,
	`{"\u0076ersion":"v1alpha1"}`,
	`{"operations":[{"op":"set","path":"/a","value":[{},[],[[]],{"a":{"b":[{"c":"\n"}]},"d":1}]}]}`,
}

var otherResponses = []string{
	`{"Version":"v1alpha1"}`, `{"version":null,"operations":null,"deny":null,"warnings":null}`, `{"version":"a","version":"b"}`,
	`{"operations":[{"op":"set","path":"/a","value":1},{"op":"set"}],"operations":[{"path":"/b"}]}`, `{"version":"v","more":1}`,
	`{"operations":[{"value":[0,0`, `{"operations":[{"value":"\x"}]}`, `{"operations":[{"value":{"a":1,}}]}`, `{"operations":[{"value":[1}]}`, `{"operations":[{"value":"a\`, `{"operations":[{"value":`, `{"operations":[{"op":"set","OP":"x"}]}`, `{"operations":{}}`, `{"warnings":[1]}`, `{"version":"v1alpha1"} {}`, `{"version":"v1alpha1"}x`, `[]`, `null`, `1`,
	`{"operations":[{"op":"set","path":"/a","value":{"a":01}}]}`, "{\"version\":\"\xff\"}", `{"operations":[null]}`, `{"deny":{"reason":1}}`,
	`{"operations":[{"op":"set","path":"/a","value":1,"value":2,"keys":["a"],"keys":[]}]}`, `{"deny":{"reason":"a"},"deny":{"message":"b"}}`,
	`{"skip":{"reason":1}}`, `{"skip":{"reason":"a"},"skip":{"message":"b"}}`, `{"skip":null,"skip":{"why":""}}`,
}

func checkValue(t *testing.T, text string) bool {
	t.Helper()
	got, ok := parse([]byte(text))
	want, err := decode([]byte(text))
	if ok {
		must.NoError(t, err, "accepted %q", text)
		must.Equal(t, want, got, "%q", text)
	}
	return ok
}

func checkResponse(t *testing.T, text string) bool {
	t.Helper()
	want, wantErr := decodeResponse([]byte(text))
	got, err := DecodeResponse([]byte(text))
	if wantErr != nil {
		must.EqualError(t, err, wantErr.Error(), "%q", text)
	} else {
		must.NoError(t, err, "%q", text)
	}
	must.Equal(t, want, got, "%q", text)
	p := parser{text: []byte(text)}
	return wantErr == nil && p.response(got) && p.end()
}

func TestTheParserReadsAsEncodingJSON(t *testing.T) {
	for _, text := range usual {
		assert.True(t, checkValue(t, text), "%q is not read fast", text)
	}
	for _, text := range unusual {
		assert.False(t, checkValue(t, text), "%q", text)
	}
	for _, text := range responses {
		assert.True(t, checkResponse(t, text), "%q is not read fast", text)
	}
	for _, text := range otherResponses {
		assert.False(t, checkResponse(t, text), "%q", text)
	}
}

func FuzzParse(f *testing.F) {
	for _, seeds := range [][]string{usual, unusual, responses, otherResponses} {
		for _, seed := range seeds {
			f.Add(seed)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		checkValue(t, text)
		checkResponse(t, text)
	})
}

func BenchmarkDecode(b *testing.B) {
	const text = `{"version":"v1alpha1","operations":[{"op":"ensure","path":"/spec/tolerations","value":[{"key":"virtual-node.liqo.io/not-allowed","operator":"Exists","effect":"NoExecute"}]},` +
		`{"op":"require","path":"/spec/affinity/nodeAffinity","value":[{"matchExpressions":[{"key":"liqo.io/type","operator":"In","values":["virtual-node"]}]}]}]}`
	for name, way := range map[string]struct {
		response func([]byte) error
		value    func([]byte) (any, error)
	}{
		"fast":          {func(data []byte) error { _, err := DecodeResponse(data); return err }, Decode},
		"encoding-json": {func(data []byte) error { _, err := decodeResponse(data); return err }, decode},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				must.NoError(b, way.response([]byte(text)))
				_, err := way.value([]byte(text))
				must.NoError(b, err)
			}
		})
	}
}
