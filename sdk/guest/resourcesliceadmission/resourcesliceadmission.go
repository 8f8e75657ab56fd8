// Package resourcesliceadmission makes a module answer the extension point
// ResourceSliceAdmission: importing it adds the wasm export resource_slice_admission, [Handle]
// registers the policy.
package resourcesliceadmission

import (
	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/guest"
	"github.com/longshore-dev/longshore/sdk/internal/codec"
	"github.com/longshore-dev/longshore/sdk/internal/serve"
)

// Request is the question: see [contract.ResourceSliceAdmissionFacts].
type Request = guest.Request[contract.ResourceSliceAdmissionFacts]

// Handle registers the policy that answers the point. Call it in an init function,
// once. An error of the policy is an error of the call; the failure policy of the binding
// then decides about the slice. A nil answer changes nothing.
//
//	resourcesliceadmission.Handle(func(r *resourcesliceadmission.Request) (*guest.Answer, error) {
//		if r.Facts.Tenant.ClusterID != "rome" {
//			return &guest.Answer{Deny: &contract.Denial{Reason: "UnknownTenant", Message: "ask for a contract first"}}, nil
//		}
//		pods := contract.Merge("/status/resources", contract.StringMap{"pods": "10"})
//		return &guest.Answer{Operations: []contract.Operation{pods}}, nil
//	})
func Handle(policy func(*Request) (*guest.Answer, error)) {
	serve.Point(contract.ResourceSliceAdmission, codec.ResourceSliceAdmissionFacts, policy)
}
