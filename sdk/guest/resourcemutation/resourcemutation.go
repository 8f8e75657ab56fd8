// Package resourcemutation makes a module answer the extension point ResourceMutation:
// importing it adds the wasm export resource_mutation, [Handle] registers the policy.
package resourcemutation

import (
	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/guest"
	"github.com/longshore-dev/longshore/sdk/internal/codec"
	"github.com/longshore-dev/longshore/sdk/internal/serve"
)

// Request is the question: see [contract.ResourceMutationFacts].
type Request = guest.Request[contract.ResourceMutationFacts]

// Answer is what a policy answers; nil and the zero value keep the object as it is.
type Answer struct {
	// Operations change facts.object, in order.
	Operations []contract.Operation
	// Skip leaves the object at home; Operations are then ignored.
	Skip *contract.Skip
	// Warnings are for the operator's log, at most contract.MaxWarnings.
	Warnings []string
}

// Handle registers the policy that answers the point. Call it in an init function,
// once. An error of the policy is an error of the call; the failure policy of the binding
// then decides about the object.
//
//	resourcemutation.Handle(func(r *resourcemutation.Request) (*resourcemutation.Answer, error) {
//		switch {
//		case r.Facts.Local.Metadata.Labels["example.com/site"] == "home":
//			return &resourcemutation.Answer{Skip: &contract.Skip{Reason: "HomeOnly", Message: "it is of use at home only"}}, nil
//		case r.Facts.Object.Kind == "ConfigMap":
//			region := contract.StringMap{"region": r.Facts.VirtualNode.ProviderClusterID}
//			return &resourcemutation.Answer{Operations: []contract.Operation{contract.Merge("/data", region)}}, nil
//		default:
//			return nil, nil
//		}
//	})
func Handle(policy func(*Request) (*Answer, error)) {
	serve.Responses(contract.ResourceMutation, codec.ResourceMutationFacts, func(r *Request) (contract.Response, error) {
		answer, err := policy(r)
		if answer == nil {
			return contract.Response{}, err
		}
		return contract.Response{Operations: answer.Operations, Skip: answer.Skip, Warnings: answer.Warnings}, err
	})
}
