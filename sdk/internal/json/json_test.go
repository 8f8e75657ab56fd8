package json_test

import (
	stdjson "encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/longshore-dev/longshore/sdk/internal/json"
)

// value builds what encoding/json builds for an any, numbers kept as text.
func value(s *json.Scanner, data []byte) any {
	raw := s.Raw()
	if raw == nil {
		return nil
	}
	inner := json.NewScanner(raw)
	switch raw[0] {
	case '{':
		m := map[string]any{}
		for key, ok := inner.FirstKey(); ok; key, ok = inner.NextKey() {
			m[string(key)] = value(inner, data)
		}
		return m
	case '[':
		list := []any{}
		for ok := inner.FirstItem(); ok; ok = inner.NextItem() {
			list = append(list, value(inner, data))
		}
		return list
	case '"':
		return inner.String()
	case 't', 'f':
		return inner.Bool()
	default:
		return stdjson.Number(raw)
	}
}

func FuzzScanner(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,-2.5e+3,true,false,null,"x\n\u00e9\ud83d\ude00"],"b":{}}`, `[]`, `""`, ` 0 `, `01`, `{"a":1,}`, `"\ud800"`, "\"\xff\"",
		`{"a" 1}`, `[1 2]`, `nul`, `-`, `1.`, `1e`, `"\x"`, "\"\x01\"", `{"a":1}{`, strings.Repeat("[", 600), `{"":""}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := json.NewScanner(data)
		got := value(s, data)
		err := s.End()
		var want any
		dec := stdjson.NewDecoder(strings.NewReader(string(data)))
		dec.UseNumber()
		valid := stdjson.Valid(data)
		if err == nil {
			if !valid {
				t.Fatalf("accepted invalid JSON %q", data)
			}
			if decErr := dec.Decode(&want); decErr != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("%q: got %#v, want %#v (%v)", data, got, want, decErr)
			}
			return
		}
		stricter := errors.Is(err, json.ErrDepth) ||
			errors.Is(err, json.ErrUTF8) && (!utf8.Valid(data) || strings.Contains(strings.ToLower(string(data)), `\ud`))
		if valid && !stricter {
			t.Fatalf("refused valid JSON %q: %v", data, err)
		}
	})
}

func FuzzAppendString(f *testing.F) {
	for _, seed := range []string{"", "plain", "a\"b\\c\n\r\t\x00\x1f", "é😀\u2028", "\xff\xfe", "<&>"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var got, want string
		if err := stdjson.Unmarshal(json.AppendString(nil, text), &got); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		reference, err := stdjson.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := stdjson.Unmarshal(reference, &want); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Fatalf("%q: wrote %q, encoding/json %q", text, got, want)
		}
		if s := json.NewScanner(json.AppendString(nil, text)); s.String() != want || s.End() != nil {
			t.Fatalf("%q does not read back: %v", text, s.Err())
		}
	})
}

func TestScannerRefusesTheWrongType(t *testing.T) {
	for name, tc := range map[string]struct {
		data string
		read func(*json.Scanner)
		want error
	}{
		"an object where a string is asked": {`{}`, func(s *json.Scanner) { _ = s.String() }, json.ErrType},
		"a string where a number is asked":  {`"1"`, func(s *json.Scanner) { s.Int64() }, json.ErrType},
		"a fraction where an integer is":    {`1.5`, func(s *json.Scanner) { s.Int64() }, json.ErrType},
		"a number beyond 64 bits":           {`9223372036854775808`, func(s *json.Scanner) { s.Int64() }, json.ErrType},
		"a list where an object is asked":   {`[]`, func(s *json.Scanner) { s.FirstKey() }, json.ErrType},
		"an object where a list is asked":   {`{}`, func(s *json.Scanner) { s.FirstItem() }, json.ErrType},
		"a number where a boolean is asked": {`1`, func(s *json.Scanner) { s.Bool() }, json.ErrType},
		"nothing at all":                    {``, func(s *json.Scanner) { _ = s.String() }, json.ErrSyntax},
		"more after the document":           {`"a" "b"`, func(s *json.Scanner) { _ = s.String() }, json.ErrSyntax},
	} {
		t.Run(name, func(t *testing.T) {
			s := json.NewScanner([]byte(tc.data))
			tc.read(s)
			if err := s.End(); !errors.Is(err, tc.want) {
				t.Fatalf("got %v, want %v", err, tc.want)
			}
		})
	}
}

func TestNullIsTheZeroValue(t *testing.T) {
	s := json.NewScanner([]byte(`[null,null,null,null,null,null]`))
	if !s.FirstItem() || s.String() != "" || !s.NextItem() || s.Int64() != 0 || !s.NextItem() || s.Bool() || !s.NextItem() || s.Raw() != nil || !s.NextItem() {
		t.Fatal(s.Err())
	}
	if _, ok := s.FirstKey(); ok || !s.NextItem() || s.FirstItem() || s.NextItem() || s.End() != nil {
		t.Fatal(s.Err())
	}
}

func TestAppendStringMapSorts(t *testing.T) {
	if got := string(json.AppendStringMap(nil, map[string]string{"b": "2", "a": "1", "c": "3"})); got != `{"a":"1","b":"2","c":"3"}` {
		t.Fatal(got)
	}
}
