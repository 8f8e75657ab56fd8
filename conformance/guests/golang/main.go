// Command golang is the policy "accelerator" in Go, written with the SDK: a pod that
// selects nodes with an accelerator gets the toleration of their taint.
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -ldflags="-s -w" -o policy.wasm .
package main

import (
	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/guest"
	"github.com/longshore-dev/longshore/sdk/guest/describe"
	"github.com/longshore-dev/longshore/sdk/guest/podmutation"
)

// accelerator is the label of nodes that have one, and the key of their taint.
const accelerator = "accelerator"

func init() {
	describe.Handle(func() contract.Manifest {
		return contract.Manifest{Name: accelerator, Version: "1.0.0", Points: []contract.PointManifest{{
			Point: contract.PodMutation, Moments: []contract.Moment{contract.MomentAdmission},
			Reads:  []string{"/object/spec/nodeSelector"},
			Writes: []contract.WriteRule{{Path: "/spec/tolerations", Verbs: []contract.Verb{contract.VerbEnsure}}},
		}}}
	})
	podmutation.Handle(tolerate)
}

func tolerate(r *podmutation.Request) (*guest.Answer, error) {
	kind, selects := r.Facts.Object.Spec.NodeSelector[accelerator]
	if !selects {
		return nil, nil
	}
	taint := contract.Toleration{Key: accelerator, Operator: "Equal", Value: kind, Effect: "NoSchedule"}
	return &guest.Answer{Operations: []contract.Operation{contract.Ensure("/spec/tolerations", taint)}}, nil
}

// main is never called: the host calls the exports of a library.
func main() {}
