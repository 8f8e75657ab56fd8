package view

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/quantity"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/document"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// fieldResources is a member of the spec and of the status of a ResourceSlice.
const fieldResources = "resources"

// ResourceSliceInput are the facts about a ResourceSlice of a consumer.
type ResourceSliceInput struct {
	// Slice that asks for resources. It is not altered.
	Slice *authv1beta1.ResourceSlice
	// Tenant is the consumer that asks.
	Tenant contract.Tenant
	// Namespace is the tenant's.
	Namespace *corev1.Namespace
	// Defaults of resources that the slice does not name.
	Defaults corev1.ResourceList
}

// ResourceSliceResult is the result of the policies for a ResourceSlice.
type ResourceSliceResult struct {
	// Granted are the resources that the slice gets.
	Granted corev1.ResourceList
	// Decisions of the policies that were called.
	Decisions []chain.Decision
	// Denial is set if a policy denied the slice.
	Denial *chain.Denied
	// Warnings for the operator.
	Warnings []string
}

// AdmitResourceSlice evaluates the ResourceSliceAdmission policies. Nothing is granted before
// them.
func AdmitResourceSlice(ctx context.Context, ev Evaluator, in ResourceSliceInput) (*ResourceSliceResult, error) {
	slice := in.Slice
	spec := map[string]any{}
	if slice.Spec.Class != "" {
		spec["class"] = string(slice.Spec.Class)
	}
	if len(slice.Spec.Resources) > 0 {
		spec[fieldResources] = slice.Spec.Resources
	}
	object := map[string]any{
		"apiVersion": authv1beta1.GroupVersion.String(), "kind": "ResourceSlice", fieldSpec: spec, fieldStatus: map[string]any{},
		fieldMetadata: metadataObject(slice.Name, slice.Namespace, slice.Labels, slice.Annotations),
	}
	facts := map[string]any{
		"tenant":    &in.Tenant,
		"namespace": &contract.Metadata{Name: in.Namespace.Name, Labels: in.Namespace.Labels, Annotations: in.Namespace.Annotations},
	}
	if len(in.Defaults) > 0 {
		facts["defaults"] = in.Defaults
	}
	attributes := chain.Attributes{Namespace: in.Namespace.Name, NamespaceLabels: in.Namespace.Labels, Labels: slice.Labels}
	if attributes.NamespaceLabels == nil {
		attributes.NamespaceLabels = map[string]string{} // nil means unknown
	}
	var o outcome
	after, err := o.evaluate(ctx, ev, chain.Input{
		Point: contract.ResourceSliceAdmission, Object: object, Facts: facts, Match: attributes, Check: checkGrant,
	})
	if err != nil {
		return nil, err
	}
	result := &ResourceSliceResult{Decisions: o.decisions, Denial: o.denial, Warnings: o.warnings}
	if o.denial == nil {
		result.Granted, err = granted(after)
	}
	return result, err
}

// checkGrant checks what a policy grants.
func checkGrant(_, after map[string]any) error {
	list, err := granted(after)
	if err != nil {
		return err
	}
	if err := quantity.CheckList(list); err != nil {
		return fmt.Errorf("status.resources: %w", err)
	}
	return nil
}

// granted returns the resources in the status of a document of a ResourceSlice.
func granted(object map[string]any) (corev1.ResourceList, error) {
	status, err := document.Member(object, fieldStatus)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(status[fieldResources])
	if err != nil {
		return nil, fmt.Errorf("encoding status.resources: %w", err)
	}
	list := corev1.ResourceList{}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("decoding status.resources: %w", err)
	}
	return list, nil
}
