package chain

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/kit/jsonvalue"
	"github.com/longshore-dev/longshore/host/policy/document"
	"github.com/longshore-dev/longshore/sdk/contract"
)

type inner struct {
	Zeta  string            `json:"zeta"`
	Alpha map[string]string `json:"alpha,omitempty"`
	Skip  string            `json:"-"`
}

// stamp marshals itself, like metav1.Time.
type stamp struct{ time.Time }

func (s stamp) MarshalJSON() ([]byte, error) {
	return []byte(`"<` + s.Format(time.DateOnly) + `>"`), nil
}

type key string

type outer struct {
	inner    `json:",inline"`
	Number   int32           `json:"number,omitempty"`
	Float    float64         `json:"float"`
	List     []inner         `json:"list"`
	Nested   *inner          `json:"nested,omitempty"`
	Keys     map[key]int     `json:"keys,omitempty"`
	Raw      json.RawMessage `json:"raw,omitempty"`
	When     stamp           `json:"when,omitzero"`
	Bytes    []byte          `json:"bytes,omitempty"`
	Any      any             `json:"any,omitempty"`
	Flag     *bool           `json:"flag,omitempty"`
	Untagged uint8
	hidden   string
}

func full() *outer {
	flag := false
	return &outer{
		inner: inner{Zeta: "a\"\\\n\t\r\x01é\xff<>&\u2028", Alpha: map[string]string{"b": "1", "a": "2"}, Skip: "x"},
		Float: 1.5, List: []inner{{}, {Zeta: "z"}}, Nested: &inner{Zeta: "n"},
		Keys: map[key]int{"k2": 2, "k1": 1}, Raw: json.RawMessage(`{ "z":1, "a":[1.50,null] }`),
		When: stamp{time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)}, Bytes: []byte("hi"), Any: map[string]any{"y": nil, "x": true},
		Flag: &flag, Untagged: 3, hidden: "h",
	}
}

func TestFactsOfStructsAndMapsAreTheSame(t *testing.T) {
	text, err := json.Marshal(full())
	require.NoError(t, err)
	decoded, err := jsonvalue.Decode(text)
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		reads []string
		want  string
	}{
		"a field of an embedded struct": {reads: []string{"/object/zeta"}, want: `{"object":{"zeta":"a\"\\\n\t\r\u0001é` + "\ufffd" + `<>&\u2028"}}`},
		"one key of a map":              {reads: []string{"/object/alpha/b", "/object/alpha/missing"}, want: `{"object":{"alpha":{"b":"1"}}}`},
		"items by name":                 {reads: []string{"/object/list[zeta=z]/zeta"}, want: `{"object":{"list":[{},{"zeta":"z"}]}}`},
		"all items, and one item whole": {reads: []string{"/object/list[zeta=z]", "/object/list[*]/alpha"}, want: `{"object":{"list":[{},{"zeta":"z"}]}}`},
		"inside of raw JSON":            {reads: []string{"/object/raw/a"}, want: `{"object":{"raw":{"a":[1.5,null]}}}`},
		"below a scalar":                {reads: []string{"/object/number/x", "/object/when/x", "/object/float[*]"}, want: `{"object":{}}`},
		"a list without selector":       {reads: []string{"/object/list/zeta"}, want: `{"object":{}}`},
		"a field and its parent":        {reads: []string{"/object/nested/zeta", "/object/nested"}, want: `{"object":{"nested":{"zeta":"n"}}}`},
		"a map with typed keys":         {reads: []string{"/object/keys/k1"}, want: `{"object":{"keys":{"k1":1}}}`},
		"a value that marshals itself":  {reads: []string{"/object/when"}, want: `{"object":{"when":"<2026-01-02>"}}`},
		"fields without a JSON name":    {reads: []string{"/object/Skip", "/object/hidden"}, want: `{"object":{}}`},
		"nothing":                       {want: `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := newReads(tc.reads, nil, bound{PointRules: &contract.PointRules{Facts: []string{"object"}}})
			require.NoError(t, err)
			for kind, object := range map[string]any{"map": decoded, "struct": full()} {
				picked, err := r.root.pick(map[string]any{"object": object})
				require.NoError(t, err)
				if picked == nil {
					picked = map[string]any{}
				}
				got, err := document.Append(nil, picked)
				require.NoError(t, err)
				assert.Equal(t, tc.want, string(got), kind)
			}
		})
	}
}
