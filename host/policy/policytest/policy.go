// Package policytest makes policies for tests: of Go functions, for code that calls policies,
// and modules with fixed answers, for code that loads them. No module is compiled for the
// former; their requests and answers are encoded like those of a module.
package policytest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync/atomic"

	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// Func implements one extension point. It must be pure.
type Func func(contract.Request) (contract.Response, error)

// Policy is a policy of Go functions. It implements chain.Policy.
type Policy struct {
	name      string
	digest    string
	manifest  contract.Manifest
	functions map[string]Func
	calls     atomic.Int64
}

// Native returns a policy that implements each point with a function. An empty name and empty
// contracts of the manifest are filled in. The digest covers name and manifest only: policies
// with different functions need different versions.
func Native(name string, manifest contract.Manifest, functions map[contract.Point]func(contract.Request) (contract.Response, error)) *Policy {
	if manifest.Name == "" {
		manifest.Name = name
	}
	if len(manifest.Contracts) == 0 {
		manifest.Contracts = contract.Versions()
	}
	p := &Policy{name: name, manifest: manifest, functions: map[string]Func{}}
	for point, function := range functions {
		p.functions[point.Export()] = function
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "native %s %+v", name, manifest))
	p.digest = "sha256:" + hex.EncodeToString(sum[:])
	return p
}

// Decide turns a pure function of typed facts, as in builtin-policies, into a function for
// [Native].
func Decide[F any](decide func(F) ([]contract.Operation, error)) func(contract.Request) (contract.Response, error) {
	return func(request contract.Request) (contract.Response, error) {
		var facts F
		if err := json.Unmarshal(request.Facts, &facts); err != nil {
			return contract.Response{}, fmt.Errorf("decoding facts: %w", err)
		}
		operations, err := decide(facts)
		return contract.Response{Operations: operations}, err
	}
}

// Name returns the name.
func (p *Policy) Name() string { return p.name }

// Digest returns a digest of name and manifest.
func (p *Policy) Digest() string { return p.digest }

// Manifest returns the manifest.
func (p *Policy) Manifest() *contract.Manifest { return &p.manifest }

// Calls returns the number of calls.
func (p *Policy) Calls() int { return int(p.calls.Load()) }

// Call decodes the request, calls the function and encodes its answer. It fills in an empty
// version of the answer.
func (p *Policy) Call(_ context.Context, export string, request []byte) ([]byte, engine.Stats, error) {
	p.calls.Add(1)
	function, ok := p.functions[export]
	if !ok {
		return nil, engine.Stats{}, fmt.Errorf("policy %s has no export %s", p.name, export)
	}
	var decoded contract.Request
	if err := json.Unmarshal(request, &decoded); err != nil {
		return nil, engine.Stats{}, fmt.Errorf("decoding the request: %w", err)
	}
	response, err := function(decoded)
	if err != nil {
		return nil, engine.Stats{}, err
	}
	if response.Version == "" {
		response.Version = contract.Version
	}
	data, err := json.Marshal(response)
	if err != nil {
		return nil, engine.Stats{}, fmt.Errorf("encoding the answer: %w", err)
	}
	return data, engine.Stats{}, nil
}
