// Package metadatafilter makes a module answer the extension point MetadataFilter:
// importing it adds the wasm export metadata_filter, [Handle] registers the policy.
package metadatafilter

import (
	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/guest"
	"github.com/longshore-dev/longshore/sdk/internal/codec"
	"github.com/longshore-dev/longshore/sdk/internal/serve"
)

// Request is the question: see [contract.MetadataFilterFacts].
type Request = guest.Request[contract.MetadataFilterFacts]

// Handle registers the policy that answers the point. Call it in an init function,
// once. An error of the policy is an error of the call; the failure policy of the binding
// then decides about the object.
//
//	metadatafilter.Handle(func(r *metadatafilter.Request) ([]contract.Operation, error) {
//		return []contract.Operation{contract.Remove("/metadata/annotations", "example.com/build-host")}, nil
//	})
func Handle(policy func(*Request) ([]contract.Operation, error)) {
	serve.Operations(contract.MetadataFilter, codec.MetadataFilterFacts, policy)
}

// EntriesRequest is the question with labels and annotations as lists: see
// [contract.MetadataFilterEntries].
type EntriesRequest = guest.Request[contract.MetadataFilterEntries]

// HandleEntries is [Handle] for a policy that is fast on objects with very many labels or
// annotations.
func HandleEntries(policy func(*EntriesRequest) ([]contract.Operation, error)) {
	serve.Operations(contract.MetadataFilter, codec.MetadataFilterEntries, policy)
}
