package contract

import (
	"github.com/longshore-dev/longshore/sdk/internal/arena"
	"github.com/longshore-dev/longshore/sdk/internal/json"
)

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
// whose field name is "web", "[*]" selects all. Map keys are
// never part of the path but of Keys or Value, so that a slash needs no escaping. An
// operation must not change the member that its path selects by: no set of
// "/spec/containers[name=web]/name".
//
// Example:
//
//	{"op":"set","path":"/spec/containers[name=web]/image","value":"mirror.example/web:1"}
//	{"op":"remove","path":"/metadata/labels","keys":["example.com/team"]}
//	{"op":"merge","path":"/spec/nodeSelector","value":{"pool":"gpu"}}
//	{"op":"ensure","path":"/spec/tolerations","value":[{"key":"gpu","operator":"Exists"}]}
//	{"op":"require","path":"/spec/affinity/nodeAffinity","value":[{"matchExpressions":[{"key":"a","operator":"Exists"}]}]}
type Operation struct {
	// Op is the verb.
	Op Verb `json:"op"`
	// Path of the field or list that it concerns.
	Path string `json:"path"`
	// Keys of the map at Path to drop; for remove only.
	Keys []string `json:"keys,omitempty"`
	// Value that is set, merged, ensured or required; none for remove.
	Value RawMessage `json:"value,omitempty"`
}

// valueBytes is the room that a value is written to: most fit, so it does not grow.
const valueBytes = 512

// Set answers "the field at path becomes value".
//
//	contract.Set("/spec/containers[name=web]/image", contract.String("mirror.example/web:1"))
func Set(path string, value Value) Operation {
	return Operation{Op: VerbSet, Path: path, Value: value.AppendJSON(arena.Bytes(valueBytes))}
}

// Remove answers "drop these keys of the map at path", or, without keys, "drop the
// field at path".
//
//	contract.Remove("/metadata/labels", "example.com/team")
func Remove(path string, keys ...string) Operation {
	return Operation{Op: VerbRemove, Path: path, Keys: keys}
}

// Merge answers "set these keys of the map at path", keeping its others.
//
//	contract.Merge("/spec/nodeSelector", contract.StringMap{"pool": "gpu"})
func Merge(path string, value Value) Operation {
	return Operation{Op: VerbMerge, Path: path, Value: value.AppendJSON(arena.Bytes(valueBytes))}
}

// Ensure answers "the list at path contains these items", appending those that are
// missing.
//
//	contract.Ensure("/spec/tolerations", contract.Toleration{Key: "gpu", Operator: "Exists"})
func Ensure(path string, items ...Value) Operation {
	return Operation{Op: VerbEnsure, Path: path, Value: appendList(arena.Bytes(valueBytes), items)}
}

// Require answers "the required node affinity at path must also match one of these
// terms"; the path is that of the NodeAffinity. The host builds the product.
//
//	contract.Require("/spec/affinity/nodeAffinity", contract.NodeSelectorTerm{
//		MatchExpressions: []contract.NodeSelectorRequirement{{Key: "pool", Operator: "Exists"}},
//	})
func Require(path string, terms ...NodeSelectorTerm) Operation {
	return Operation{Op: VerbRequire, Path: path, Value: appendList(arena.Bytes(valueBytes), terms)}
}

// AppendJSON implements [Value], so that answers are encoded without reflection.
func (o Operation) AppendJSON(b []byte) []byte {
	b = json.AppendString(append(b, `{"op":`...), string(o.Op))
	b = json.AppendString(append(b, `,"path":`...), o.Path)
	if len(o.Keys) > 0 {
		b = json.AppendStrings(append(b, `,"keys":`...), o.Keys)
	}
	if len(o.Value) > 0 {
		b = append(append(b, `,"value":`...), o.Value...)
	}
	return append(b, '}')
}
