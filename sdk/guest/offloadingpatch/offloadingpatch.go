// Package offloadingpatch makes a module answer the extension point OffloadingPatch:
// importing it adds the wasm export offloading_patch, [Handle] registers the policy.
package offloadingpatch

import (
	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/guest"
	"github.com/longshore-dev/longshore/sdk/internal/codec"
	"github.com/longshore-dev/longshore/sdk/internal/serve"
)

// Request is the question: see [contract.OffloadingPatchFacts].
type Request = guest.Request[contract.OffloadingPatchFacts]

// Handle registers the policy that answers the point. Call it in an init function,
// once. An error of the policy is an error of the call; the failure policy of the binding
// then decides about the object.
//
//	offloadingpatch.Handle(func(r *offloadingpatch.Request) ([]contract.Operation, error) {
//		pool := r.Facts.VirtualNode.Labels["example.com/pool"]
//		return []contract.Operation{contract.Merge("/spec/nodeSelector", contract.StringMap{"pool": pool})}, nil
//	})
func Handle(policy func(*Request) ([]contract.Operation, error)) {
	serve.Operations(contract.OffloadingPatch, codec.OffloadingPatchFacts, policy)
}
