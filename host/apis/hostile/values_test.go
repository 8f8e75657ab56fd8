package hostile_test

import (
	"encoding/json"
	"strings"
)

// huge is the length of the longest text. It is below the limit of a request.
const huge = 1 << 20

// hostileValues are what a peer may send for any field, as JSON.
func hostileValues() map[string]json.RawMessage {
	values := map[string]json.RawMessage{
		"null": json.RawMessage("null"), "true": json.RawMessage("true"),
		"an empty list": json.RawMessage("[]"), "a list": json.RawMessage(`["x"]`), "an empty object": json.RawMessage("{}"),
		"an object with a key twice": json.RawMessage(`{"a":1,"a":"x"}`),
		"lists, 5000 deep":           json.RawMessage(strings.Repeat("[", 5000) + strings.Repeat("]", 5000)),
	}
	for _, number := range []string{
		"-1", "1.0", "1.5", "1e2", "-0.0", "1e-9", "1e18", "1e19", "-1e19", "1e30", "-1e30", "1e300", "1e400", "1e30000000", strings.Repeat("9", 400),
		"2147483648", "-2147483649", "4294967296", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809",
		"18446744073709551616", "9223372036854775296", "9.2233720368547758e18",
	} {
		values["number "+short(number)] = json.RawMessage(number)
	}
	for _, text := range []string{
		"", " ", "x", "-", "+", ".", "e", "E", "0", "00", "0x1F", "+1", "-1", "--1", "+-1", "1.", ".5", "1..5", "1_000", "1,5", " 1", "1 ", "1\n", "１", "٣", "1\u0000",
		"NaN", "Infinity", "1e1.5", "1E1.5", "1e.5", "1e5.", "1e", "1e+", "1e3", "1e-9", "1e18", "1e19", "1e99", "1e-99", "1e30000000", "-1e30000000", "1e-30000000", "1e2000000000",
		"1.5e30000000", "1e99999999999999999999", "12345678901234567890e30000000", "1.23456789012345678901e-30000000", strings.Repeat("9", 400), "0." + strings.Repeat("9", 400),
		strings.Repeat("9", 400) + "Ei", strings.Repeat("0", 400), "9999999999999999999E", "-9999999999999999999.9999999999999999999Ei", ".0000000000000000001n",
		"1KiMi", "1ki", "1Kim", "1mk", "1Eie3", "1eE", "1EE", "1u", "1n", "1i", "1k1", "1e3Ki",
		"2026-11-28T05:00:00Z", "2026-11-28t05:00:00z", "2026-11-28T05:00:00z", "2026-11-28 05:00:00Z", "2026-02-30T00:00:00Z", "2025-02-29T00:00:00Z", "2026-13-01T00:00:00Z",
		"2016-12-31T23:59:60Z", "2026-11-28T24:00:00Z", "2026-11-28T05:00:00", "2026-11-28T05:00:00,5Z", "2026-11-28T05:00:00x5Z", "2026-11-28T05:00:00." + strings.Repeat("1", 400) + "Z",
		"2026-11-28T05:00:00+24:00", "2026-11-28T05:00:00+23:60", "2026-11-28T05:00:00+99:99", "2026-11-28T05:00:00+0100", "0000-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59",
		"+12026-11-28T05:00:00Z", "2026-11-28", "2026-11-28T", "T" + "05:00:00Z", "２０２６-11-28T05:00:00Z",
		"YQ==", "YQ", "YQ=", "====", "Y_-Q", "YQ==\n", "Y\nQ==", "YR==", "YQ==YQ==", "ÿ", "\u202e", strings.Repeat("a", 4096),
	} {
		raw, _ := json.Marshal(text)
		values["text "+short(string(raw))] = raw
	}
	return values
}

// valuesOfEachClass are hostile values of which no two are refused for the same reason.
func valuesOfEachClass() map[string]json.RawMessage {
	all, few := hostileValues(), map[string]json.RawMessage{}
	for _, name := range []string{
		"null", "true", "a list", "an empty object", "an object with a key twice", "lists, 5000 deep",
		"number -1", "number 1.5", "number 1e19", "number 1e400", "number 1e30000000", "number 9223372036854775808",
		`text ""`, `text "x"`, `text "１"`, `text "+1"`, `text "1e1.5"`, `text "1e30000000"`, `text "1e-30000000"`, `text "1e2000000000"`,
		`text "12345678901234567890e30000000"`, "text " + short(`"`+strings.Repeat("9", 400)+`Ei"`), `text "1KiMi"`,
		`text "2026-11-28t05:00:00z"`, `text "2026-02-30T00:00:00Z"`, `text "2016-12-31T23:59:60Z"`, `text "2026-11-28T05:00:00+24:00"`, `text "YQ"`,
	} {
		value, isKnown := all[name]
		if !isKnown {
			panic("no hostile value is named " + name)
		}
		few[name] = value
	}
	return few
}

func short(text string) string {
	const most = 40
	if len(text) > most {
		return text[:most] + "..." + text[len(text)-4:]
	}
	return text
}

// hugeText is a text of digits, which every kind of field may take for what it expects.
func hugeText() json.RawMessage { return json.RawMessage(`"` + strings.Repeat("1", huge) + `"`) }
