// Package podmutation makes a module answer the extension point PodMutation:
// importing it adds the wasm export pod_mutation, [Handle] registers the policy.
package podmutation

import (
	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/guest"
	"github.com/longshore-dev/longshore/sdk/internal/codec"
	"github.com/longshore-dev/longshore/sdk/internal/serve"
)

// Request is the question: see [contract.PodMutationFacts].
type Request = guest.Request[contract.PodMutationFacts]

// Handle registers the policy that answers the point. Call it in an init function,
// once. An error of the policy is an error of the call; the failure policy of the binding
// then decides about the object.
// A nil answer changes nothing.
//
//	podmutation.Handle(func(r *podmutation.Request) (*guest.Answer, error) {
//		if r.Moment == contract.MomentAdmission {
//			return nil, nil
//		}
//		toleration := contract.Toleration{Key: "gpu", Operator: "Exists"}
//		return &guest.Answer{Operations: []contract.Operation{contract.Ensure("/spec/tolerations", toleration)}}, nil
//	})
func Handle(policy func(*Request) (*guest.Answer, error)) {
	serve.Point(contract.PodMutation, codec.PodMutationFacts, policy)
}
