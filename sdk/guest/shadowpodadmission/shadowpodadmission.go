// Package shadowpodadmission makes a module answer the extension point ShadowPodAdmission:
// importing it adds the wasm export shadow_pod_admission, [Handle] registers the policy.
package shadowpodadmission

import (
	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/guest"
	"github.com/longshore-dev/longshore/sdk/internal/codec"
	"github.com/longshore-dev/longshore/sdk/internal/serve"
)

// Request is the question: see [contract.ShadowPodAdmissionFacts].
type Request = guest.Request[contract.ShadowPodAdmissionFacts]

// Handle registers the policy that answers the point. Call it in an init function,
// once. An error of the policy is an error of the call; the failure policy of the binding
// then decides about the ShadowPod. A nil answer changes nothing.
//
//	shadowpodadmission.Handle(func(r *shadowpodadmission.Request) (*guest.Answer, error) {
//		if r.Facts.Object.Spec.HostNetwork {
//			return &guest.Answer{Deny: &contract.Denial{Reason: "HostNetwork", Message: "pods must not use the network of a node"}}, nil
//		}
//		class := contract.Set("/spec/priorityClassName", contract.String("tenant-"+r.Facts.Tenant.ClusterID))
//		return &guest.Answer{Operations: []contract.Operation{class}}, nil
//	})
func Handle(policy func(*Request) (*guest.Answer, error)) {
	serve.Point(contract.ShadowPodAdmission, codec.ShadowPodAdmissionFacts, policy)
}
