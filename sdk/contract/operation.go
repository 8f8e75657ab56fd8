package contract

import "encoding/json"

// Verb is what an [Operation] does. All five are idempotent: applying one twice
// gives what applying it once gives.
type Verb string

// The verbs. Missing parents are created; removing what is absent does nothing.
const (
	// VerbSet replaces the field with the value.
	VerbSet Verb = "set"
	// VerbRemove drops the field, or only the map keys named in Keys.
	VerbRemove Verb = "remove"
	// VerbMerge sets the keys of the value (an object) in the map at the path.
	VerbMerge Verb = "merge"
	// VerbEnsure appends those items of the value (a list) that the list at the path
	// does not hold yet.
	VerbEnsure Verb = "ensure"
	// VerbRequire ANDs the node selector terms of the value (a list of
	// NodeSelectorTerm) onto the required node affinity of the NodeAffinity at the
	// path. No term there: the value. Otherwise the product of both lists, existing
	// terms outermost; matchFields of both are kept. A term that already contains
	// every expression of one of the new terms stays as it is (absorption), so the
	// operation is idempotent.
	VerbRequire Verb = "require"
)

// Verbs lists all verbs.
func Verbs() []Verb { return []Verb{VerbSet, VerbRemove, VerbMerge, VerbEnsure, VerbRequire} }

// Operation is one change to facts.object.
//
// Path is a JSON pointer without indices; "[name=web]" selects the list items
// whose field name is "web", "[*]" selects all. Map keys never stand in the path:
// they stand in Keys or in Value, so that a key with a slash needs no escaping.
//
//	{"op":"set","path":"/spec/containers[name=web]/image","value":"mirror.example/web:1"}
//	{"op":"remove","path":"/metadata/labels","keys":["example.com/team"]}
//	{"op":"merge","path":"/spec/nodeSelector","value":{"pool":"gpu"}}
//	{"op":"ensure","path":"/spec/tolerations","value":[{"key":"gpu","operator":"Exists"}]}
//	{"op":"require","path":"/spec/affinity/nodeAffinity","value":[{"matchExpressions":[{"key":"a","operator":"Exists"}]}]}
type Operation struct {
	Op    Verb            `json:"op"`
	Path  string          `json:"path"`
	Keys  []string        `json:"keys,omitempty"`
	Value json.RawMessage `json:"value,omitempty"`
}
