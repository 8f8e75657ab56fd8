package main

import "math"

// What an API server accepts for a field, Go must decode, and in bounded time: an object that is stored
// and cannot be decoded would end the informers of everyone. controller-gen writes what a field
// means; these bounds are what Go makes of it. TestWhatIsAcceptedIsDecoded (host/apis/hostile) holds them.
const (
	// generatedQuantity is the pattern of controller-gen, which has exponents with fractions, and no
	// bound: arithmetic on 1e30000000 takes seconds.
	generatedQuantity = `^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$`
	// quantity has as many digits as an int64, a fraction as a float64 is printed, and exponents
	// from nano to exa.
	quantity       = `^[+-]?([0-9]{1,19}(\.[0-9]{0,19})?|\.[0-9]{1,19})([KMGTPE]i|[numkMGTPE]|[eE]([+-]?0?[0-9]|\+?1[0-8]))?$`
	quantityLength = 1 + 19 + 1 + 19 + 4
	// quantities is how many resources an object can name.
	quantities = 256
	// dateTime is RFC 3339 as package time reads it: API servers accept lower-case letters, too.
	// The years are those that stay four digits in every zone.
	dateTime       = `^(0[0-9]{2}[1-9]|[1-8][0-9]{3}|9[0-8][0-9]{2})-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`
	dateTimeLength = len("2006-01-02T15:04:05.999999999+00:00")
	// An API server compares bounds as floating-point numbers: this is the greatest one that is an int64.
	// With the least int64 as a bound, it refuses every value.
	maxInt64 = 1<<63 - 1024
)

// bound adds to a schema, and to those below it, what Go can decode.
func bound(schema map[string]any) {
	switch {
	case schema["pattern"] == generatedQuantity:
		schema["pattern"], schema["maxLength"] = quantity, quantityLength
		boundNumber(schema, -maxInt64, maxInt64)
	case schema["x-kubernetes-int-or-string"] == true, schema["type"] == "integer" && schema["format"] == "int32":
		boundNumber(schema, math.MinInt32, math.MaxInt32)
	case schema["type"] == "integer":
		boundNumber(schema, -maxInt64, maxInt64)
	case schema["format"] == "date-time":
		schema["pattern"], schema["maxLength"] = dateTime, dateTimeLength
	}
	if schema["type"] == "string" && schema["format"] != nil {
		// An API server that checks a format does not check the type: it takes a list, too. These
		// refuse every list, and say nothing about texts.
		schema["minItems"], schema["maxItems"] = 1, 0
	}
	children, _ := schema["properties"].(map[string]any)
	for _, child := range children {
		if child, ok := child.(map[string]any); ok {
			bound(child)
		}
	}
	if items, ok := schema["items"].(map[string]any); ok {
		bound(items)
	}
	if values, ok := schema["additionalProperties"].(map[string]any); ok {
		if _, isBounded := schema["maxProperties"]; values["pattern"] == generatedQuantity && !isBounded {
			schema["maxProperties"] = quantities
		}
		bound(values)
	}
}

// boundNumber keeps the bounds of the field's own markers.
func boundNumber(schema map[string]any, least, most float64) {
	if _, ok := schema["minimum"]; !ok {
		schema["minimum"] = least
	}
	if _, ok := schema["maximum"]; !ok {
		schema["maximum"] = most
	}
}
