package suite

import (
	"encoding/json"
	"fmt"

	"github.com/longshore-dev/longshore/conformance/vectors"
	"github.com/longshore-dev/longshore/host/policy/document"
	"github.com/longshore-dev/longshore/host/policy/operation"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// CheckResult applies the operations of the vector's response to its object, twice,
// and returns how what comes out differs from the vector's result. A vector without
// an object passes.
func CheckResult(v *vectors.Vector) error {
	if len(v.Object) == 0 {
		return nil
	}
	var response contract.Response
	if err := json.Unmarshal(v.Response, &response); err != nil {
		return fmt.Errorf("decoding the response: %w", err)
	}
	operations, err := operation.Compile(response.Operations)
	if err != nil {
		return fmt.Errorf("compiling the operations: %w", err)
	}
	object, err := decodeObject(v.Object)
	if err != nil {
		return err
	}
	want, err := decodeObject(v.Result)
	if err != nil {
		return err
	}
	for _, time := range []string{"once", "twice"} {
		if object, _, err = operation.Apply(object, operations); err != nil {
			return fmt.Errorf("applying the operations %s: %w", time, err)
		}
		if !document.Equal(object, want) {
			got, err := json.Marshal(object)
			if err != nil {
				return fmt.Errorf("encoding the result: %w", err)
			}
			return fmt.Errorf("applied %s gives %s, want %s", time, got, v.Result)
		}
	}
	return nil
}
