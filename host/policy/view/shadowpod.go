package view

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/jsonvalue"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/document"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// ShadowPodInput are the facts about a ShadowPod that a consumer creates or changes.
type ShadowPodInput struct {
	// Raw is the ShadowPod's JSON as the API server sent it.
	Raw []byte
	// Tenant is the consumer to which the namespace belongs.
	Tenant contract.Tenant
	// Namespace of the ShadowPod.
	Namespace *corev1.Namespace
	// User and Groups of the request.
	User   string
	Groups []string
	// DryRun reports that the ShadowPod will not be stored.
	DryRun bool
	// Quota of the user; may be nil.
	Quota *offloadingv1beta1.Quota
}

// quotaFacts is contract.Quota with the types of the API.
type quotaFacts struct {
	Resources         corev1.ResourceList                 `json:"resources,omitempty"`
	Used              corev1.ResourceList                 `json:"used,omitempty"`
	LimitsEnforcement offloadingv1beta1.LimitsEnforcement `json:"limitsEnforcement,omitempty"`
}

// podPath is the path of the pod's spec in a ShadowPod.
const podPath = "/spec/pod"

// AdmitShadowPod evaluates the ShadowPodAdmission policies (stage 6). The result's JSONPatch is a
// patch of the ShadowPod.
func AdmitShadowPod(ctx context.Context, ev Evaluator, in ShadowPodInput) (*AdmissionResult, error) {
	object, labels, err := shadowPodObject(in.Raw, in.Namespace.Name)
	if err != nil {
		return nil, err
	}
	facts := map[string]any{
		"tenant":  &in.Tenant,
		"request": &contract.AdmissionRequest{User: in.User, Groups: in.Groups, DryRun: in.DryRun},
		"namespace": &contract.Metadata{
			Name: in.Namespace.Name, Labels: in.Namespace.Labels, Annotations: in.Namespace.Annotations,
		},
	}
	if in.Quota != nil {
		spec := &in.Quota.Spec
		facts["quota"] = &quotaFacts{Resources: spec.Resources, Used: in.Quota.Status.Used, LimitsEnforcement: spec.LimitsEnforcement}
	}
	attributes := chain.Attributes{Namespace: in.Namespace.Name, NamespaceLabels: in.Namespace.Labels, Labels: labels}
	if attributes.NamespaceLabels == nil {
		attributes.NamespaceLabels = map[string]string{} // nil means unknown
	}
	var o outcome
	after, err := o.evaluate(ctx, ev, chain.Input{
		Point: contract.ShadowPodAdmission, Object: object, Facts: facts, Match: attributes, Check: checkPod,
	})
	if err != nil {
		return nil, err
	}
	return &AdmissionResult{
		Changed: o.changed, Decisions: o.decisions, Denial: o.denial, Warnings: o.warnings,
		before: object, after: after, specPath: podPath,
	}, nil
}

// shadowPodObject returns the document of the pod of a ShadowPod, and its labels. Fields of the
// spec that the host does not know stay in it.
func shadowPodObject(raw []byte, namespace string) (object map[string]any, labels map[string]string, err error) {
	shadow, err := jsonvalue.Split(raw, fieldMetadata, fieldSpec)
	if err != nil {
		return nil, nil, fmt.Errorf("decoding the ShadowPod: %w", err)
	}
	metadata, err := document.Member(shadow, fieldMetadata)
	if err != nil {
		return nil, nil, err
	}
	name, err := document.Text(metadata["name"])
	if err != nil {
		return nil, nil, fmt.Errorf("reading metadata.name of the ShadowPod: %w", err)
	}
	if labels, err = stringMap(metadata, fieldLabels); err != nil {
		return nil, nil, fmt.Errorf("reading the ShadowPod: %w", err)
	}
	annotations, err := stringMap(metadata, fieldAnnotations)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the ShadowPod: %w", err)
	}
	spec, err := document.Member(shadow, fieldSpec)
	if err != nil {
		return nil, nil, err
	}
	members := map[string]any{}
	if pod, ok := spec["pod"].(json.RawMessage); ok {
		if members, err = jsonvalue.Split(pod); err != nil {
			return nil, nil, fmt.Errorf("decoding spec.pod of the ShadowPod: %w", err)
		}
	}
	return map[string]any{
		"apiVersion": "v1", "kind": "Pod", fieldSpec: members,
		fieldMetadata: metadataObject(name, namespace, labels, withDecisions(annotations, "")),
	}, labels, nil
}

// ShadowPodChange is an update of a ShadowPod.
type ShadowPodChange struct {
	// Before and After are the ShadowPod's JSON as the API server sent it.
	Before, After []byte
	// Namespace of the ShadowPod.
	Namespace string
	// Ignored are keys of labels that the request does not decide.
	Ignored []string
}

// ChangesShadowPod reports whether the ShadowPodAdmission policies decide about an update: it changes the
// spec of the pod, of which the policies' own changes are part, or labels or annotations by which a policy
// is bound or which it reads.
func ChangesShadowPod(ctx context.Context, ev Evaluator, in ShadowPodChange) (bool, error) {
	inputs, metadata := [2]chain.Input{}, [2]any{}
	for i, raw := range [][]byte{in.Before, in.After} {
		object, labels, err := shadowPodObject(raw, in.Namespace)
		if err != nil {
			return false, err
		}
		for _, key := range in.Ignored {
			delete(labels, key) // the labels of the object, too
		}
		inputs[i] = chain.Input{Point: contract.ShadowPodAdmission, Object: object, Match: chain.Attributes{Namespace: in.Namespace, Labels: labels}}
		metadata[i] = object[fieldMetadata]
	}
	before, after := &inputs[0], &inputs[1]
	if patch, err := diff(nil, "", before.Object[fieldSpec], after.Object[fieldSpec]); err != nil || len(patch) > 0 {
		return true, err
	}
	if patch, err := diff(nil, "", metadata[0], metadata[1]); err != nil || len(patch) == 0 {
		return false, err
	}
	known, ok := ev.(interface {
		SeesChange(ctx context.Context, before, after chain.Input) (bool, error)
	})
	if !ok {
		return true, nil
	}
	return known.SeesChange(ctx, *before, *after)
}
