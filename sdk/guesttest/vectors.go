//go:build !wasip1

package guesttest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"strings"
	"testing"

	"github.com/longshore-dev/longshore/sdk/contract"
)

// vector is a golden case, as the conformance suite has them too.
type vector struct {
	Description string           `json:"description"`
	Origin      string           `json:"origin"`
	Request     contract.Request `json:"request"`
	Response    json.RawMessage  `json:"response"`
	Error       string           `json:"error"`
	// Object, Result and Future are for the suite, which applies the operations.
	Object json.RawMessage `json:"object"`
	Result json.RawMessage `json:"result"`
	Future bool            `json:"future"`
}

// Vectors runs the golden files of a folder, *.json, as subtests. A file has a request and
// the expected response. The conformance suite runs the same files against the compiled
// module.
//
//	{"description": "An image that is at its mirror stays there", "origin": "registry-rewrite",
//	 "request": {"version": "v1alpha1", "point": "PodMutation", "moment": "Offload", "facts": {…}},
//	 "response": {"version": "v1alpha1"}}
//
// Instead of a response, a file may have an error: a part of the policy's message.
//
//	func TestVectors(t *testing.T) { guesttest.Vectors(t, os.DirFS("vectors")) }
func Vectors(t *testing.T, folder fs.FS) {
	t.Helper()
	names, err := fs.Glob(folder, "*.json")
	if err != nil || len(names) == 0 {
		t.Fatalf("there are no vectors, *.json: %v", err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(name, ".json"), func(t *testing.T) {
			data, err := fs.ReadFile(folder, name)
			if err != nil {
				t.Fatal(err)
			}
			var v vector
			decode(t, data, &v)
			if err := v.check(t); err != nil {
				t.Errorf("%s: %v", v.Description, err)
			}
		})
	}
}

func (v *vector) check(tb testing.TB) error {
	tb.Helper()
	if (len(v.Response) == 0) == (v.Error == "") || v.Description == "" || v.Origin == "" {
		return errors.New("a vector needs description, origin, and either response or error")
	}
	question := Question{Moment: v.Request.Moment, Facts: v.Request.Facts}
	if len(v.Request.Settings) > 0 {
		question.Settings = v.Request.Settings
	}
	response, err := Try(tb, v.Request.Point, question)
	switch {
	case v.Error != "" && err == nil:
		return fmt.Errorf("got %s, want an error with %q", encode(tb, response), v.Error)
	case v.Error != "" && !strings.Contains(err.Error(), v.Error):
		return fmt.Errorf("got error %w, want one with %q", err, v.Error)
	case v.Error != "":
		return nil
	case err != nil:
		return err
	}
	var got, want any
	decode(tb, encode(tb, response), &got)
	decode(tb, v.Response, &want)
	if !reflect.DeepEqual(got, want) {
		var compact bytes.Buffer
		if err := json.Compact(&compact, v.Response); err != nil {
			return fmt.Errorf("reading the response: %w", err)
		}
		return fmt.Errorf("got  %s\nwant %s", encode(tb, response), &compact)
	}
	return nil
}
