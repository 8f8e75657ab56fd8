package contract

import "github.com/longshore-dev/longshore/sdk/internal/json"

// Value is what an operation writes: it appends itself to b as JSON. The types of
// this package that an author writes are Values, and so are [String], [StringMap],
// [Bool], [Int] and [Raw]. None uses reflection, which in a guest is slow and large;
// for other types there is sdk/guest/anyjson.
type Value interface {
	AppendJSON(b []byte) []byte
}

// String is a string value.
type String string

// AppendJSON implements [Value].
func (v String) AppendJSON(b []byte) []byte { return json.AppendString(b, string(v)) }

// Bool is a boolean value.
type Bool bool

// AppendJSON implements [Value].
func (v Bool) AppendJSON(b []byte) []byte { return json.AppendBool(b, bool(v)) }

// Int is an integer value.
type Int int64

// AppendJSON implements [Value].
func (v Int) AppendJSON(b []byte) []byte { return json.AppendInt(b, int64(v)) }

// StringMap is a map of strings, written with sorted keys.
type StringMap map[string]string

// AppendJSON implements [Value].
func (v StringMap) AppendJSON(b []byte) []byte { return json.AppendStringMap(b, v) }

// Raw is JSON text that is passed on as it is, for example from the facts. Empty
// text is written as null.
type Raw []byte

// AppendJSON implements [Value].
func (v Raw) AppendJSON(b []byte) []byte {
	if len(v) == 0 {
		return append(b, "null"...)
	}
	return append(b, v...)
}

// Raws turns raw list items, as the facts hold them, into values for [Ensure].
//
//	contract.Ensure("/spec/tolerations", contract.Raws(facts.Patch.Tolerations)...)
func Raws(items []RawMessage) []Value {
	values := make([]Value, len(items))
	for i, item := range items {
		values[i] = Raw(item)
	}
	return values
}

// appendList appends a list of values.
func appendList[V Value](b []byte, items []V) []byte {
	b = append(b, '[')
	for i, item := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = item.AppendJSON(b)
	}
	return append(b, ']')
}

// AppendJSON implements [Value].
func (t Toleration) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	b = json.AppendStringMember(b, "key", t.Key)
	b = json.AppendStringMember(b, "operator", t.Operator)
	b = json.AppendStringMember(b, "value", t.Value)
	b = json.AppendStringMember(b, "effect", t.Effect)
	if t.TolerationSeconds != nil {
		b = json.AppendInt(json.AppendMember(b, "tolerationSeconds"), *t.TolerationSeconds)
	}
	return append(b, '}')
}

// AppendJSON implements [Value].
func (r NodeSelectorRequirement) AppendJSON(b []byte) []byte {
	b = json.AppendString(append(b, `{"key":`...), r.Key)
	b = json.AppendString(append(b, `,"operator":`...), r.Operator)
	if len(r.Values) > 0 {
		b = json.AppendStrings(append(b, `,"values":`...), r.Values)
	}
	return append(b, '}')
}

// AppendJSON implements [Value].
func (t NodeSelectorTerm) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	if len(t.MatchExpressions) > 0 {
		b = appendList(json.AppendMember(b, "matchExpressions"), t.MatchExpressions)
	}
	if len(t.MatchFields) > 0 {
		b = appendList(json.AppendMember(b, "matchFields"), t.MatchFields)
	}
	return append(b, '}')
}

// AppendJSON implements [Value].
func (s LabelSelector) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	if len(s.MatchLabels) > 0 {
		b = json.AppendStringMap(json.AppendMember(b, "matchLabels"), s.MatchLabels)
	}
	return append(b, '}')
}

// AppendJSON implements [Value].
func (t PodAffinityTerm) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	if t.LabelSelector != nil {
		b = t.LabelSelector.AppendJSON(json.AppendMember(b, "labelSelector"))
	}
	b = json.AppendString(json.AppendMember(b, "topologyKey"), t.TopologyKey)
	return append(b, '}')
}

// AppendJSON implements [Value].
func (t WeightedPodAffinityTerm) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	b = json.AppendInt(json.AppendMember(b, "weight"), int64(t.Weight))
	b = t.PodAffinityTerm.AppendJSON(json.AppendMember(b, "podAffinityTerm"))
	return append(b, '}')
}
