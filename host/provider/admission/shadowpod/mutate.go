// Package shadowpod is Pod flow, stage 6: the webhooks for ShadowPods. One records who
// creates a ShadowPod and calls the provider's policies, the other validates it and reserves its
// resources in the creator's Quota.
//
// The policies are asked on creation, and on updates that change the pod's spec, or labels and annotations
// that a bound policy reads or is bound by: a pod that vanishes is created again from the current ShadowPod.
// Other updates, such as those of the status and of finalizers, call no policy, so that they pass whatever
// the policies would decide meanwhile. While the webhook is down, the API server refuses all updates but
// those of the status. Their decisions are in the audit annotation "decisions" of the
// request, in the log and in the metrics, and not on the object, whose metadata the consumer keeps up
// to date. A denial is answered with the name of the policy, its reason and its message, a failing
// policy with its name and the class of the failure, both with 403: the virtual kubelet records an
// event on the pod and tries again. Digests, error texts and warnings stay with the provider.
//
// A policy that changes between creation and update of a ShadowPod may answer an update with a change
// that ShadowPods do not allow; the update is then refused.
package shadowpod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/undecodable"
	"github.com/longshore-dev/longshore/host/provider/quota"
)

// Paths of the webhooks.
const (
	MutatePath   = "/mutate/shadowpods"
	ValidatePath = "/validate/shadowpods"
)

// Mutator sets the creator label, and applies the provider's policies. The label is immutable:
// the ShadowPod uses the Quota of its creator until it is gone, although other users may update
// it.
type Mutator struct {
	// Decoder decodes the wire objects.
	Decoder admission.Decoder
	// Enforce is unset when resources are not enforced.
	Enforce bool
	// Allowed is what consumers may choose for their pods.
	Allowed Allowed
	// Policies decide about the pod; nil for none.
	Policies *Policies
}

var _ admission.Handler = (*Mutator)(nil)

// Handle implements admission.Handler.
func (m *Mutator) Handle(ctx context.Context, request admission.Request) admission.Response {
	shadow := &metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(request.Object.Raw, shadow); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the ShadowPod: %w", err))
	}
	if isRequested(request.Operation, shadow) {
		// The API server validates after this webhook.
		if err := undecodable.CheckAmounts[offloadingv1beta1.ShadowPod](request.Object.Raw); err != nil {
			return admission.Denied(err.Error())
		}
	}
	if request.Operation == admissionv1.Create {
		if response := m.Allowed.check(request.Object.Raw); !response.Allowed {
			return response
		}
	}
	response := m.label(&request, shadow)
	if !response.Allowed {
		return response
	}
	applies, err := m.Policies.applies(ctx, &request, shadow)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	if !applies {
		return response
	}
	return m.Policies.admit(ctx, &request, shadow, response)
}

// isRequested reports whether a request creates or changes a ShadowPod that is not being deleted:
// removing a finalizer must succeed even if the object is invalid.
func isRequested(operation admissionv1.Operation, shadow metav1.Object) bool {
	return operation == admissionv1.Create || operation == admissionv1.Update && shadow.GetDeletionTimestamp() == nil
}

// label sets the creator label.
func (m *Mutator) label(request *admission.Request, shadow *metav1.PartialObjectMetadata) admission.Response {
	if !m.Enforce {
		return admission.Allowed("")
	}
	creator := quota.LabelValue(request.UserInfo.Username)
	switch request.Operation {
	case admissionv1.Create:
		if request.UserInfo.Username == "" {
			return admission.Denied("the creator of the ShadowPod is not known")
		}
	case admissionv1.Update:
		before := &metav1.PartialObjectMetadata{}
		if err := json.Unmarshal(request.OldObject.Raw, before); err != nil {
			return admission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the old ShadowPod: %w", err))
		}
		creator = before.Labels[offloadingv1beta1.CreatorUserLabel]
	default:
		return admission.Allowed("")
	}
	if shadow.Labels[offloadingv1beta1.CreatorUserLabel] == creator {
		return admission.Allowed("")
	}
	return setCreator(request.Object.Raw, creator)
}

// setCreator answers with a patch of the label, or of its removal.
func setCreator(raw []byte, creator string) admission.Response {
	var object struct {
		Metadata map[string]any `json:"metadata"`
	}
	whole := map[string]any{}
	if err := errors.Join(json.Unmarshal(raw, &object), json.Unmarshal(raw, &whole)); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the ShadowPod: %w", err))
	}
	labels, _ := object.Metadata["labels"].(map[string]any)
	if labels == nil {
		labels = map[string]any{}
	}
	labels[offloadingv1beta1.CreatorUserLabel] = creator
	if creator == "" {
		delete(labels, offloadingv1beta1.CreatorUserLabel)
	}
	object.Metadata["labels"] = labels
	whole["metadata"] = object.Metadata
	changed, err := json.Marshal(whole)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("encoding the ShadowPod: %w", err))
	}
	return admission.PatchResponseFromRaw(raw, changed)
}
