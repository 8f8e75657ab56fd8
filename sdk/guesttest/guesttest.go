//go:build !wasip1

// Package guesttest runs a policy natively in unit tests: the same functions, with the
// encoding of a module and the checks of the host. It passes only the facts that the
// manifest reads. It fails the test when an operation is not in the write set of the
// manifest, or when two calls with the same request have different answers.
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

// Question is the request to a policy.
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
func Ask(tb testing.TB, point contract.Point, q Question) contract.Response {
	tb.Helper()
	response, err := Try(tb, point, q)
	if err != nil {
		tb.Fatalf("the policy failed: %v", err)
	}
	return response
}

// Try returns the policy's answer, or the error that the host would get.
func Try(tb testing.TB, point contract.Point, q Question) (contract.Response, error) {
	tb.Helper()
	manifest := Manifest(tb)
	declared := manifest.For(point)
	if declared == nil {
		tb.Fatalf("the manifest does not declare %s: the host would never ask", point)
	}
	if !declared.At(q.Moment) {
		tb.Fatalf("the manifest does not declare moment %s of %s: the host would not ask", q.Moment, point)
	}
	facts, err := project(q.Facts, declared.ReadsOf(q.Settings != nil))
	if err != nil {
		tb.Fatalf("projecting the facts: %v", err)
	}
	request := contract.Request{Version: contract.Version, Point: point, Moment: q.Moment, Facts: facts}
	if q.Settings != nil {
		request.Settings = encode(tb, q.Settings)
	}
	input := encode(tb, request)
	output, callErr := call(tb, point.Export(), input)
	again, againErr := call(tb, point.Export(), input)
	if !bytes.Equal(output, again) || (callErr == nil) != (againErr == nil) {
		tb.Errorf("the policy is not pure: asked the same twice, it answered\n%s\nthen\n%s", output, again)
	}
	if callErr != nil {
		return contract.Response{}, callErr
	}
	var response contract.Response
	decode(tb, output, &response)
	for _, operation := range response.Operations {
		if !allowed(operation, declared.Writes) {
			tb.Errorf("the manifest does not allow %q at %s: the host would refuse it", operation.Op, operation.Path)
		}
		if renames(operation) {
			tb.Errorf("%q at %s changes what its path selects by: the host would refuse it", operation.Op, operation.Path)
		}
	}
	return response, nil
}

// Manifest returns what the module's describe export answers.
func Manifest(tb testing.TB) contract.Manifest {
	tb.Helper()
	output, err := call(tb, contract.ExportDescribe, nil)
	if err != nil {
		tb.Fatalf("describe failed: %v", err)
	}
	var manifest contract.Manifest
	decode(tb, output, &manifest)
	return manifest
}

// ValidateSettings returns what the module's validate_settings export answers, for
// settings that are to be used at these points; none means all.
func ValidateSettings(tb testing.TB, settings any, points ...contract.Point) contract.SettingsResponse {
	tb.Helper()
	request := contract.SettingsRequest{Version: contract.Version, Points: points, Settings: encode(tb, settings)}
	output, err := call(tb, contract.ExportValidateSettings, encode(tb, request))
	if err != nil {
		tb.Fatalf("validate_settings failed: %v", err)
	}
	var response contract.SettingsResponse
	decode(tb, output, &response)
	return response
}

// call runs an export and puts its log lines into the test's log.
func call(tb testing.TB, export string, input []byte) ([]byte, error) {
	tb.Helper()
	status, left := abi.Call(input, func() int32 { return dispatch.Run(export) })
	for _, line := range left.Lines {
		tb.Logf("guest: %s", line.Message)
	}
	if status != abi.OK {
		return nil, errors.New(left.Error)
	}
	return left.Output, nil
}

func encode(tb testing.TB, v any) []byte {
	tb.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		tb.Fatalf("encoding %T: %v", v, err)
	}
	return data
}

// decode is as strict as the host: an unknown member is an error.
func decode(tb testing.TB, data []byte, v any) {
	tb.Helper()
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		tb.Fatalf("decoding %s: %v", data, err)
	}
}
