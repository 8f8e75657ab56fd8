// Package guesttest runs a policy natively, for its author's unit tests: the same
// functions, reached through the same encoding as in a module, and held to the same
// rules as by the host. It projects the facts to what the manifest reads, and fails
// the test when the policy answers an operation that the manifest does not write, or
// gives two answers to one question.
//
//	func TestPolicy(t *testing.T) {
//		response := guesttest.Ask(t, contract.OffloadingPatch, guesttest.Question{
//			Facts: contract.OffloadingPatchFacts{VirtualNode: contract.VirtualNode{Name: "milan"}},
//		})
//		if len(response.Operations) != 1 {
//			t.Fatalf("got %v", response.Operations)
//		}
//	}
//
// The policy must be registered in the test's binary: call the Handle functions in an
// init function of the policy's own package, as the module does.
package guesttest

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/internal/abi"
	"github.com/longshore-dev/longshore/sdk/internal/dispatch"
)

// Question is what a policy is asked.
type Question struct {
	// Moment is needed for PodMutation only.
	Moment contract.Moment
	// Facts is the facts object of the point: one of the contract's types, or any value
	// with the same JSON form.
	Facts any
	// Settings is the binding's spec.settings, nil for none.
	Settings any
}

// Ask returns the policy's answer and fails the test when there is none.
func Ask(t testing.TB, point contract.Point, q Question) contract.Response {
	t.Helper()
	response, err := Try(t, point, q)
	if err != nil {
		t.Fatalf("the policy failed: %v", err)
	}
	return response
}

// Try returns the policy's answer, or the error that the host would get.
func Try(t testing.TB, point contract.Point, q Question) (contract.Response, error) {
	t.Helper()
	manifest := Manifest(t)
	declared := manifest.For(point)
	if declared == nil {
		t.Fatalf("the manifest does not declare %s: the host would never ask", point)
	}
	if !declared.At(q.Moment) {
		t.Fatalf("the manifest does not declare moment %s of %s: the host would not ask", q.Moment, point)
	}
	facts, err := project(q.Facts, declared.Reads)
	if err != nil {
		t.Fatalf("projecting the facts: %v", err)
	}
	request := contract.Request{Version: contract.Version, Point: point, Moment: q.Moment, Facts: facts}
	if q.Settings != nil {
		request.Settings = encode(t, q.Settings)
	}
	input := encode(t, request)
	output, callErr := call(t, point.Export(), input)
	again, againErr := call(t, point.Export(), input)
	if !bytes.Equal(output, again) || (callErr == nil) != (againErr == nil) {
		t.Errorf("the policy is not pure: asked the same twice, it answered\n%s\nthen\n%s", output, again)
	}
	if callErr != nil {
		return contract.Response{}, callErr
	}
	var response contract.Response
	decode(t, output, &response)
	for _, operation := range response.Operations {
		if !allowed(operation, declared.Writes) {
			t.Errorf("the manifest does not allow %q at %s: the host would refuse it", operation.Op, operation.Path)
		}
	}
	return response, nil
}

// Manifest returns what the module's describe export answers.
func Manifest(t testing.TB) contract.Manifest {
	t.Helper()
	output, err := call(t, contract.ExportDescribe, nil)
	if err != nil {
		t.Fatalf("describe failed: %v", err)
	}
	var manifest contract.Manifest
	decode(t, output, &manifest)
	return manifest
}

// ValidateSettings returns what the module's validate_settings export answers.
func ValidateSettings(t testing.TB, settings any) contract.SettingsResponse {
	t.Helper()
	request := contract.SettingsRequest{Version: contract.Version, Settings: encode(t, settings)}
	output, err := call(t, contract.ExportValidateSettings, encode(t, request))
	if err != nil {
		t.Fatalf("validate_settings failed: %v", err)
	}
	var response contract.SettingsResponse
	decode(t, output, &response)
	return response
}

// call runs an export and puts its log lines into the test's log.
func call(t testing.TB, export string, input []byte) ([]byte, error) {
	t.Helper()
	status, left := abi.Call(input, func() int32 { return dispatch.Run(export) })
	for _, line := range left.Lines {
		t.Logf("guest: %s", line.Message)
	}
	if status != abi.OK {
		return nil, errors.New(left.Error)
	}
	return left.Output, nil
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("encoding %T: %v", v, err)
	}
	return data
}

// decode is as strict as the host: an unknown member is an error.
func decode(t testing.TB, data []byte, v any) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		t.Fatalf("decoding %s: %v", data, err)
	}
}
