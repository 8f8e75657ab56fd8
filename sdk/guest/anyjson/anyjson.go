// Package anyjson converts between JSON and any Go type: settings into an author's
// struct, a value that the contract has no type for into what an operation writes.
//
// It uses encoding/json, which makes a module about 400 KiB larger and costs about a
// hundred microseconds a call. A policy that is called often should use typed values
// and package strictjson instead.
package anyjson

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/guest"
)

// Settings decodes the settings of a binding into v, a pointer, and refuses fields
// that v lacks, so that a misspelled setting is an error and not a policy that does
// nothing. Without settings v stays as it is.
//
//	settings := struct{ Registry string `json:"registry"` }{Registry: "mirror.example"}
//	if err := anyjson.Settings(request.Settings, &settings); err != nil {
//		return nil, err
//	}
func Settings(s guest.Settings, v any) error {
	if len(s) == 0 {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(s))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return fmt.Errorf("decoding spec.settings: %w", err)
	}
	return nil
}

// Value turns any Go value into one that an operation writes.
//
//	value, err := anyjson.Value(map[string]any{"runAsUser": 1000})
//	if err != nil {
//		return nil, err
//	}
//	operation := contract.Merge("/spec/securityContext", value)
func Value(v any) (contract.Value, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding the value of an operation: %w", err)
	}
	return contract.Raw(data), nil
}
