//go:build !wasip1

package guesttest

import (
	"strings"
	"testing"

	"github.com/longshore-dev/longshore/sdk/contract"
)

// The policy is that of guesttest_test, which is in the same test binary.
func TestVectorsAreHeldAgainstThePolicy(t *testing.T) {
	request := contract.Request{Version: contract.Version, Point: contract.OffloadingPatch, Facts: []byte(`{}`)}
	good := vector{Description: "d", Origin: "o", Request: request, Error: "no virtual node"}
	if err := good.check(t); err != nil {
		t.Fatal(err)
	}
	for want, v := range map[string]vector{
		"want one with":   {Description: "d", Origin: "o", Request: request, Error: "another error"},
		"no virtual node": {Description: "d", Origin: "o", Request: request, Response: []byte(`{"version":"v1alpha1"}`)},
		"needs":           {Description: "d", Request: request, Error: "x"},
	} {
		if err := v.check(t); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	mutation := contract.Request{
		Version: contract.Version, Point: contract.PodMutation, Moment: contract.MomentOffload,
		Facts: []byte(`{"object":{"metadata":{"annotations":{"example.com/team":"blue"}}}}`),
	}
	answer := vector{Description: "d", Origin: "o", Request: mutation, Response: []byte(`{"warnings":["w"],"version":"v1alpha1",
		"operations":[{"op":"merge","path":"/metadata/labels","value":{"team":"blue"}}]}`)}
	if err := answer.check(t); err != nil {
		t.Error(err)
	}
	answer.Response = []byte(`{"version":"v1alpha1"}`)
	if err := answer.check(t); err == nil || !strings.Contains(err.Error(), "want {") {
		t.Errorf("got %v", err)
	}
	answer.Response, answer.Error = nil, "x"
	if err := answer.check(t); err == nil || !strings.Contains(err.Error(), "want an error") {
		t.Errorf("got %v", err)
	}
}
