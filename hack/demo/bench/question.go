package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/longshore-dev/longshore/conformance/vectors"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// question is one question to a chain, made from a golden vector.
type question struct {
	vector string
	input  chain.Input
}

// questions are one for each core point: of the vectors without settings the one with the
// longest request whose answer changes its object.
func questions() ([]question, error) {
	all, err := vectors.All()
	if err != nil {
		return nil, fmt.Errorf("reading the vectors: %w", err)
	}
	longest := map[contract.Point]*vectors.Vector{}
	for i := range all {
		v := &all[i]
		point, err := v.Point()
		if err != nil {
			return nil, fmt.Errorf("reading the vectors: %w", err)
		}
		if changes, err := changesObject(v); err != nil {
			return nil, err
		} else if configured, err := hasSettings(v); err != nil {
			return nil, err
		} else if !changes || configured {
			continue
		}
		if known := longest[point]; known == nil || len(v.Request) > len(known.Request) {
			longest[point] = v
		}
	}
	var found []question
	for _, point := range contract.CorePoints() {
		v, ok := longest[point]
		if !ok {
			return nil, fmt.Errorf("no vector of %s changes an object", point)
		}
		input, err := inputOf(v)
		if err != nil {
			return nil, fmt.Errorf("reading vector %s: %w", v.Name, err)
		}
		found = append(found, question{v.Name, *input})
	}
	return found, nil
}

// hasSettings reports whether the vector's question comes from a binding with settings.
func hasSettings(v *vectors.Vector) (bool, error) {
	var request contract.Request
	if err := json.Unmarshal(v.Request, &request); err != nil {
		return false, fmt.Errorf("decoding the request of vector %s: %w", v.Name, err)
	}
	return len(request.Settings) > 0, nil
}

// changesObject reports whether the vector has an object that its result differs from.
func changesObject(v *vectors.Vector) (bool, error) {
	if len(v.Object) == 0 {
		return false, nil
	}
	var object, result any
	if err := errors.Join(json.Unmarshal(v.Object, &object), json.Unmarshal(v.Result, &result)); err != nil {
		return false, fmt.Errorf("reading vector %s: %w", v.Name, err)
	}
	return !reflect.DeepEqual(object, result), nil
}

// inputOf asks what the vector asks: what the request holds beside the object are facts.
func inputOf(v *vectors.Vector) (*chain.Input, error) {
	var request contract.Request
	if err := json.Unmarshal(v.Request, &request); err != nil {
		return nil, fmt.Errorf("decoding the request: %w", err)
	}
	var facts map[string]any
	if err := json.Unmarshal(request.Facts, &facts); err != nil {
		return nil, fmt.Errorf("decoding the facts: %w", err)
	}
	// The request holds what the policy reads of the object; the chain is given all of it.
	delete(facts, "object")
	var object map[string]any
	if err := json.Unmarshal(v.Object, &object); err != nil {
		return nil, fmt.Errorf("decoding the object: %w", err)
	}
	return &chain.Input{Point: request.Point, Moment: request.Moment, Object: object, Facts: facts}, nil
}
