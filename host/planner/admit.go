package planner

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	jsonpatch "github.com/evanphx/json-patch/v5"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/view"
)

// offloadings reads the facts for the handler of the pod webhook.
type offloadings struct{ planner *Planner }

// Get implements client.Reader.
func (o offloadings) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	switch target := object.(type) {
	case *offloadingv1beta1.NamespaceOffloading:
		if found := o.planner.offloading(key.Namespace); found != nil && key.Name == offloadingv1beta1.NamespaceOffloadingName {
			*target = *found
			return nil
		}
	case *corev1.Namespace:
		if found := o.planner.facts.Namespaces[key.Name]; found != nil {
			*target = *found
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

// List implements client.Reader; the handler does not list.
func (offloadings) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return apierrors.NewMethodNotSupported(schema.GroupResource{}, "list")
}

// admit lets the handler of the pod webhook decide about the pod. It returns nil if the pod is
// refused.
func (p *Planner) admit(ctx context.Context, plan *Plan, pod *corev1.Pod) (*corev1.Pod, error) {
	raw, err := json.Marshal(pod)
	if err != nil {
		return nil, fmt.Errorf("encoding the pod: %w", err)
	}
	dryRun := true
	response := p.handler.Handle(ctx, admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Namespace: pod.Namespace, Name: pod.Name, Operation: admissionv1.Create,
		Object: runtime.RawExtension{Raw: raw}, DryRun: &dryRun,
	}})
	plan.Warnings = append(plan.Warnings, response.Warnings...)
	if !response.Allowed {
		reason, message := "Denied", ""
		if response.Result != nil {
			message = response.Result.Message
			if response.Result.Code >= http.StatusInternalServerError {
				reason = "WebhookFailed"
			}
		}
		plan.block(Refused, Admission, reason, "The pod webhook refuses the pod: %s", message)
		return nil, ctx.Err() //nolint:wrapcheck // Plan adds the pod.
	}
	if len(response.Patch) == 0 {
		return pod, nil
	}
	patch, err := jsonpatch.DecodePatch(response.Patch)
	if err != nil {
		return nil, fmt.Errorf("decoding the patch of the pod webhook: %w", err)
	}
	if raw, err = patch.Apply(raw); err != nil {
		return nil, fmt.Errorf("applying the patch of the pod webhook: %w", err)
	}
	admitted := &corev1.Pod{}
	if err := json.Unmarshal(raw, admitted); err != nil {
		return nil, fmt.Errorf("decoding the admitted pod: %w", err)
	}
	entries, err := view.DecodeDecisions(admitted.Annotations[policyv1alpha1.DecisionsAnnotation])
	if err != nil {
		return nil, fmt.Errorf("decoding the decisions of the pod webhook: %w", err)
	}
	for i := range entries {
		plan.addEntry(Admission, &entries[i])
	}
	return admitted, nil
}

// addEntry records the changes of one policy.
func (p *Plan) addEntry(stage Stage, entry *view.Entry) {
	for _, operation := range entry.Operations {
		p.Changes = append(p.Changes, Change{Stage: stage, What: operation, Policy: entry.Policy})
	}
	for _, key := range entry.Kept {
		p.Changes = append(p.Changes, Change{Stage: stage, What: "keep " + key, Policy: entry.Policy, Why: "the key is reserved, and the policy's change of it was not applied"})
	}
	if entry.Ignored {
		p.Warnings = append(p.Warnings, fmt.Sprintf("Policy %q fails and is skipped (failurePolicy: Ignore).", entry.Policy))
	}
}
