// Package vectors holds the golden cases of the default policies: for each extension
// point, a request and the answer that the reference's behavior asks for. A case is
// a file, so adding one needs no Go, and a policy in any language can be held against
// them.
package vectors

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/longshore-dev/longshore/sdk/contract"
)

//go:embed */*.json
var files embed.FS

// Vector is one golden case.
type Vector struct {
	// Name is the file's path without its ending: "podmutation/remote-product".
	Name string `json:"-"`
	// Description is a sentence about the case.
	Description string `json:"description"`
	// Origin names the behavior that the case pins: a section of the reference or a
	// trap, with the word deviation where the answer differs on purpose.
	Origin string `json:"origin"`
	// Policy that answers so: the default policies when empty, or a guest of conformance/guests, for
	// points without a default policy.
	Policy string `json:"policy,omitempty"`
	// Request is what the policy is asked, projected to what the default policy reads.
	Request json.RawMessage `json:"request"`
	// Response is the answer; absent when the policy must fail.
	Response json.RawMessage `json:"response,omitempty"`
	// Error is a part of the error when the policy must fail.
	Error string `json:"error,omitempty"`
	// Object and Result are optional: the operations of the answer turn the former into
	// the latter.
	Object json.RawMessage `json:"object,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	// Future is set if the case has fields that no Kubernetes has yet, so that its result
	// cannot be validated.
	Future bool `json:"future,omitempty"`
}

// Point returns the extension point that the case asks.
func (v *Vector) Point() (contract.Point, error) {
	var request contract.Request
	if err := json.Unmarshal(v.Request, &request); err != nil {
		return "", fmt.Errorf("decoding the request of %s: %w", v.Name, err)
	}
	return request.Point, nil
}

// All returns the cases of the default policies, sorted by name.
func All() ([]Vector, error) { return Of("") }

// Of returns the cases of a policy, sorted by name.
func Of(policy string) ([]Vector, error) {
	every, err := Every()
	return slices.DeleteFunc(every, func(v Vector) bool { return v.Policy != policy }), err
}

// Every returns the cases of all policies, sorted by name: golden requests for each extension point.
func Every() ([]Vector, error) { return read(files, "*/*.json") }

// Read returns the cases of a folder, sorted by name: those of an author's own policy.
func Read(folder fs.FS) ([]Vector, error) { return read(folder, "*.json") }

func read(from fs.FS, pattern string) ([]Vector, error) {
	names, err := fs.Glob(from, pattern)
	if err != nil {
		return nil, fmt.Errorf("listing vectors: %w", err)
	}
	all := make([]Vector, 0, len(names))
	for _, name := range names {
		data, err := fs.ReadFile(from, name)
		if err != nil {
			return nil, fmt.Errorf("reading a vector: %w", err)
		}
		vector, err := Parse(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		vector.Name = strings.TrimSuffix(name, path.Ext(name))
		all = append(all, *vector)
	}
	return all, nil
}

// Parse reads one case and refuses one that is incomplete or has unknown members.
func Parse(data []byte) (*Vector, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var v Vector
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("decoding the vector: %w", err)
	}
	switch {
	case v.Description == "" || v.Origin == "":
		return nil, fmt.Errorf("a vector needs description and origin")
	case len(v.Request) == 0:
		return nil, fmt.Errorf("a vector needs a request")
	case (len(v.Response) == 0) == (v.Error == ""):
		return nil, fmt.Errorf("a vector needs a response or an error, not both")
	case (len(v.Object) == 0) != (len(v.Result) == 0):
		return nil, fmt.Errorf("a vector has object and result, or neither")
	}
	return &v, nil
}
