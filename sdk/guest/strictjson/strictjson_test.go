package strictjson_test

import (
	stdjson "encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/longshore-dev/longshore/sdk/guest"
	"github.com/longshore-dev/longshore/sdk/guest/strictjson"
)

type item struct {
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// pairs lets encoding/json read what Pairs reads.
type pairs []strictjson.Pair

func (p *pairs) UnmarshalJSON(data []byte) error {
	var members map[string]string
	if err := stdjson.Unmarshal(data, &members); err != nil || members == nil {
		return err
	}
	*p = pairs{}
	for key, value := range members {
		*p = append(*p, strictjson.Pair{Key: key, Value: value})
	}
	return nil
}

func (p pairs) MarshalJSON() ([]byte, error) {
	members := map[string]string{}
	for _, pair := range p {
		members[pair.Key] = pair.Value
	}
	return stdjson.Marshal(members)
}

type config struct {
	Name   string             `json:"name,omitempty"`
	On     bool               `json:"on,omitempty"`
	Count  int64              `json:"count,omitempty"`
	Words  []string           `json:"words,omitempty"`
	Map    pairs              `json:"map,omitempty"`
	Any    stdjson.RawMessage `json:"any,omitempty"`
	Nested item               `json:"nested"`
	Items  []item             `json:"items,omitempty"`
}

func itemFields(i *item) []strictjson.Field {
	return []strictjson.Field{strictjson.String("from", &i.From), strictjson.String("to", &i.To)}
}

func decode(data []byte, c *config) error {
	return strictjson.Decode(guest.Settings(data),
		strictjson.String("name", &c.Name), strictjson.Bool("on", &c.On), strictjson.Int("count", &c.Count),
		strictjson.Strings("words", &c.Words), strictjson.Pairs("map", (*[]strictjson.Pair)(&c.Map)), strictjson.Raw("any", (*[]byte)(&c.Any)),
		strictjson.Object("nested", itemFields(&c.Nested)...), strictjson.List("items", &c.Items, itemFields))
}

func TestDecode(t *testing.T) {
	got := config{Name: "kept", On: true}
	data := `{"name":null,"count":-3,"words":["a\n","b"],"map":{"z":"1","example.com/k":"v"},"any":{"x":[1]},"nested":{"from":"f"},"items":[{"to":"t"},{}]}`
	if err := decode([]byte(data), &got); err != nil {
		t.Fatal(err)
	}
	want := config{
		Name: "kept", On: true, Count: -3, Words: []string{"a\n", "b"}, Map: pairs{{"z", "1"}, {"example.com/k", "v"}},
		Any: stdjson.RawMessage(`{"x":[1]}`), Nested: item{From: "f"}, Items: []item{{To: "t"}, {}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got  %+v\nwant %+v", got, want)
	}
	if err := decode(nil, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("no settings: %v, %+v", err, got)
	}
}

func TestDecodeSaysWhatIsWrongAndWhere(t *testing.T) {
	for data, want := range map[string]string{
		`{"nam":"x"}`:                 "spec.settings.nam: unknown field, want name, on, count, words, map, any, nested or items",
		`{"items":[{},{"form":"x"}]}`: "spec.settings.items[1].form: unknown field, want from or to",
		`{"items":[{"from":1}]}`:      "spec.settings.items[0].from: want a string",
		`{"items":[7]}`:               "spec.settings.items[0]: want an object",
		`{"items":[null]}`:            "spec.settings.items[0]: want an object, not null",
		`{"items":{}}`:                "spec.settings.items: want a list",
		`{"nested":{"to":[]}}`:        "spec.settings.nested.to: want a string",
		`{"nested":[]}`:               "spec.settings.nested: want an object",
		`{"map":{"a b":1}}`:           `spec.settings.map["a b"]: want a string`,
		`{"map":{"a":"1","a":"2"}}`:   `spec.settings.map["a"]: the key stands twice`,
		`{"map":[]}`:                  "spec.settings.map: want an object",
		`{"words":["a",null]}`:        "spec.settings.words[1]: want a string, not null",
		`{"words":"a"}`:               "spec.settings.words: want a list",
		`{"on":"true"}`:               "spec.settings.on: want true or false",
		`{"count":1.5}`:               "spec.settings.count: want an integer",
		`{"name":"x","name":"y"}`:     "spec.settings.name: the field stands twice",
		`[]`:                          "spec.settings: want an object",
		`{"name":"x"} {}`:             "spec.settings: invalid JSON at byte 13",
		`{"name":"x`:                  "spec.settings.name: invalid JSON at byte 10",
		`{"any":}`:                    "spec.settings.any: invalid JSON at byte 7",
	} {
		t.Run(data, func(t *testing.T) {
			err := decode([]byte(data), &config{})
			if err == nil || err.Error() != want {
				t.Fatalf("got  %v\nwant %s", err, want)
			}
		})
	}
	if err := strictjson.Decode(guest.Settings(`{"a":1}`)); err == nil || !strings.Contains(err.Error(), "want none") {
		t.Fatalf("got %v", err)
	}
}

// FuzzDecode holds the package against encoding/json: what it accepts, that accepts too
// and reads equally.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"name":"x","on":true,"count":3,"words":["a"],"map":{"a":"b"},"any":[],"nested":{"from":"x"},"items":[{"to":"y"}]}`))
	f.Add([]byte(`{"items":[{"from":"\u00e9","to":null}],"words":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var got, want config
		if decode(data, &got) != nil || len(data) == 0 {
			return
		}
		dec := stdjson.NewDecoder(strings.NewReader(string(data)))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&want); err != nil {
			t.Fatalf("accepted %s: %v", data, err)
		}
		if string(want.Any) == "null" {
			want.Any = nil
		}
		gotJSON, err := stdjson.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		wantJSON, err := stdjson.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if string(gotJSON) != string(wantJSON) {
			t.Fatalf("%s\ngot  %s\nwant %s", data, gotJSON, wantJSON)
		}
	})
}

func TestKeys(t *testing.T) {
	for data, want := range map[string]string{
		`{"limits":{"cpu":1,"memory":"1Gi","other":{"a":[null]}}}`: "cpu memory other",
		`{"limits":{}}`:   "",
		`{"limits":null}`: "",
		`{}`:              "",
	} {
		var keys []string
		if err := strictjson.Decode(guest.Settings(data), strictjson.Keys("limits", &keys)); err != nil || strings.Join(keys, " ") != want {
			t.Errorf("%s: got %q, %v, want %q", data, keys, err, want)
		}
	}
	var keys []string
	if err := strictjson.Decode(guest.Settings(`{"limits":["cpu"]}`), strictjson.Keys("limits", &keys)); err == nil || err.Error() != "spec.settings.limits: want an object" {
		t.Errorf("a list: got %q, %v", keys, err)
	}
}
