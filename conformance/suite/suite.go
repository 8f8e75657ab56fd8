// Package suite tests a policy module against golden vectors, in our host and in stock
// extism/go-sdk. Different answers of the two hosts are a bug in an ABI; an answer other
// than the vector's is a bug of the module.
package suite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/longshore-dev/longshore/conformance/vectors"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// Host calls a module that it has loaded. Bytes in, bytes out.
type Host interface {
	// Call runs an export. An error that the module itself reports contains the
	// module's message.
	Call(ctx context.Context, export string, input []byte) ([]byte, error)
}

// Check asks the host the vector's question and returns how the answer differs, nil
// when it does not.
func Check(ctx context.Context, host Host, v *vectors.Vector) error {
	point, err := v.Point()
	if err != nil {
		return err
	}
	input, err := compact(v.Request)
	if err != nil {
		return err
	}
	output, err := host.Call(ctx, point.Export(), input)
	if v.Error != "" {
		if err == nil {
			return fmt.Errorf("answered %s, want an error with %q", output, v.Error)
		}
		if !strings.Contains(err.Error(), v.Error) {
			return fmt.Errorf("failed with %w, want an error with %q", err, v.Error)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("asking %s: %w", point, err)
	}
	return sameResponse(output, v.Response)
}

// compact removes white space, as the host sends no other.
func compact(data []byte) ([]byte, error) {
	var b bytes.Buffer
	if err := json.Compact(&b, data); err != nil {
		return nil, fmt.Errorf("compacting the request: %w", err)
	}
	return b.Bytes(), nil
}

// sameResponse compares two encoded responses as JSON, and refuses members that the
// contract does not know.
func sameResponse(got, want []byte) error {
	dec := json.NewDecoder(bytes.NewReader(got))
	dec.DisallowUnknownFields()
	var response contract.Response
	if err := dec.Decode(&response); err != nil {
		return fmt.Errorf("answered %q, which is not a response: %w", got, err)
	}
	var gotValue, wantValue any
	if err := errors.Join(json.Unmarshal(got, &gotValue), json.Unmarshal(want, &wantValue)); err != nil {
		return fmt.Errorf("decoding the answers: %w", err)
	}
	if !reflect.DeepEqual(gotValue, wantValue) {
		return fmt.Errorf("answered %s, want %s", got, want)
	}
	return nil
}
