package view

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/jsonvalue"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/document"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// AdmissionInput are the facts about a pod that is being created.
type AdmissionInput struct {
	// Pod that is being created. It is not altered.
	Pod *corev1.Pod
	// Raw is the pod's JSON as the API server sent it. Set it instead of Pod to answer with
	// [AdmissionResult.JSONPatch]; the pod is then not decoded, which is several times
	// faster.
	Raw []byte
	// Offloading is the NamespaceOffloading of the pod's namespace.
	Offloading *offloadingv1beta1.NamespaceOffloadingSpec
	// Namespace of the pod; at least its name is set.
	Namespace *corev1.Namespace
	// User and Groups of the request.
	User   string
	Groups []string
	// DryRun reports that the pod will not be stored.
	DryRun bool
	// RuntimeClassName is the cluster's Liqo runtime class.
	RuntimeClassName string
}

// AdmissionResult is the result of the policies for a pod that is being created.
type AdmissionResult struct {
	// Pod after the policies: the input's if nothing changed, else a copy that shares its
	// unchanged fields. Nil if the input was Raw.
	Pod *corev1.Pod
	// Changed reports whether a policy changed the pod.
	Changed bool
	// Decisions of the policies that were called.
	Decisions []chain.Decision
	// Denial is set if a policy denied the pod.
	Denial *chain.Denied
	// Warnings for the user who creates the pod.
	Warnings []string

	before, after map[string]any
	// specPath is the path of the pod's spec in the object that the API server sent; empty is /spec.
	specPath string
}

// offloadingFacts is contract.NamespaceOffloading with the types of the API.
type offloadingFacts struct {
	PodOffloadingStrategy offloadingv1beta1.PodOffloadingStrategyType `json:"podOffloadingStrategy"`
	ClusterSelector       corev1.NodeSelector                         `json:"clusterSelector"`
}

// AdmitPod evaluates the PodMutation policies at the moment Admission (stage 1).
func AdmitPod(ctx context.Context, ev Evaluator, in AdmissionInput) (*AdmissionResult, error) {
	object, attributes, err := admissionObject(in)
	if err != nil {
		return nil, err
	}
	facts := map[string]any{
		"request":          &contract.AdmissionRequest{User: in.User, Groups: in.Groups, DryRun: in.DryRun},
		"runtimeClassName": in.RuntimeClassName,
	}
	if in.Offloading != nil {
		facts["offloading"] = &offloadingFacts{
			PodOffloadingStrategy: in.Offloading.PodOffloadingStrategy,
			ClusterSelector:       in.Offloading.ClusterSelector,
		}
	}
	if in.Namespace != nil {
		facts["namespace"] = &contract.Metadata{
			Name: in.Namespace.Name, Labels: in.Namespace.Labels, Annotations: in.Namespace.Annotations,
		}
		attributes.Namespace = in.Namespace.Name
		attributes.NamespaceLabels = in.Namespace.Labels
		if attributes.NamespaceLabels == nil {
			attributes.NamespaceLabels = map[string]string{} // nil means unknown
		}
	}
	var o outcome
	after, err := o.evaluate(ctx, ev, chain.Input{
		Point: contract.PodMutation, Moment: contract.MomentAdmission,
		Object: object, Facts: facts, Match: attributes, Check: checkPod,
	})
	if err != nil {
		return nil, err
	}
	result := &AdmissionResult{
		Changed: o.changed, Decisions: o.decisions, Denial: o.denial, Warnings: o.warnings,
		before: object, after: after,
	}
	if in.Pod == nil {
		return result, nil
	}
	result.Pod, err = podWithChanges(in.Pod, object, after)
	return result, err
}

// Check returns what check does of the pod before and after the policies. It is not called if the
// policies changed only fields of the spec for which isHarmless is true; fields have their JSON names.
// Fields that the host does not know are omitted from both pods.
func (r *AdmissionResult) Check(isHarmless func(field string) bool, check func(before, after *corev1.Pod) error) error {
	old, now, err := bothMembers(r.before, r.after, fieldSpec)
	if err != nil {
		return fmt.Errorf("comparing the pod before and after the policies: %w", err)
	}
	changesMetadata := slices.Contains(document.Changed(r.before, r.after), fieldMetadata)
	if !changesMetadata && !slices.ContainsFunc(document.Changed(old, now), func(field string) bool { return !isHarmless(field) }) {
		return nil
	}
	before, err := decodePod(r.before)
	if err != nil {
		return err
	}
	after, err := decodePod(r.after)
	if err != nil {
		return err
	}
	return check(before, after)
}

// decodePod decodes the document of a pod. It ignores unknown fields.
func decodePod(object map[string]any) (*corev1.Pod, error) {
	data, err := json.Marshal(map[string]any{fieldMetadata: object[fieldMetadata], fieldSpec: object[fieldSpec]})
	if err != nil {
		return nil, fmt.Errorf("encoding the pod: %w", err)
	}
	pod := &corev1.Pod{}
	if err := json.Unmarshal(data, pod); err != nil {
		return nil, fmt.Errorf("decoding the pod: %w", err)
	}
	return pod, nil
}

// admissionObject returns the document of the pod, and the attributes for matching.
func admissionObject(in AdmissionInput) (map[string]any, chain.Attributes, error) {
	var attributes chain.Attributes
	if in.Pod != nil {
		metadata, err := document.Object(&in.Pod.ObjectMeta)
		if err != nil {
			return nil, attributes, fmt.Errorf("listing the fields of the pod's metadata: %w", err)
		}
		attributes.Namespace, attributes.Labels = in.Pod.Namespace, in.Pod.Labels
		object, err := podObject(metadata, &in.Pod.Spec)
		return object, attributes, err
	}
	object, err := jsonvalue.Split(in.Raw, fieldMetadata, fieldSpec)
	if err != nil {
		return nil, attributes, fmt.Errorf("decoding the pod: %w", err)
	}
	metadata, err := document.Member(object, fieldMetadata)
	if err != nil {
		return nil, attributes, err
	}
	if attributes.Labels, err = stringMap(metadata, fieldLabels); err != nil {
		return nil, attributes, err
	}
	if attributes.Namespace, err = document.Text(metadata["namespace"]); err != nil {
		return nil, attributes, fmt.Errorf("reading metadata.namespace: %w", err)
	}
	return object, attributes, nil
}

// checkPod checks that the changed fields of a pod can be decoded. The API server decides on
// fields that the host could not decode before the change either.
func checkPod(before, after map[string]any) error {
	if len(document.Changed(before, after)) == 0 {
		return nil
	}
	if err := checkMetadata(before, after); err != nil {
		return err
	}
	_, err := podWithChanges(&corev1.Pod{}, before, after)
	if err == nil {
		return nil
	}
	if _, errBefore := podWithChanges(&corev1.Pod{}, nil, onlyChanged(before, after)); errBefore != nil {
		return nil
	}
	return err
}

// onlyChanged returns the members of metadata and spec of before that differ in after.
func onlyChanged(before, after map[string]any) map[string]any {
	out := map[string]any{}
	for _, name := range []string{fieldMetadata, fieldSpec} {
		old, now, err := bothMembers(before, after, name)
		if err != nil {
			continue
		}
		members := map[string]any{}
		for _, field := range document.Changed(old, now) {
			if value, err := document.Open(old[field]); err == nil && value != nil {
				members[field] = value
			}
		}
		out[name] = members
	}
	return out
}

// podWithChanges returns the pod with the differences between two documents of it.
func podWithChanges(pod *corev1.Pod, before, after map[string]any) (*corev1.Pod, error) {
	if len(document.Changed(before, after)) == 0 {
		return pod, nil
	}
	next := *pod
	oldMetadata, newMetadata, err := bothMembers(before, after, fieldMetadata)
	if err != nil {
		return nil, err
	}
	if err := decodeChanges(&next.ObjectMeta, oldMetadata, newMetadata, fieldMetadata); err != nil {
		return nil, err
	}
	oldSpec, newSpec, err := bothMembers(before, after, fieldSpec)
	if err != nil {
		return nil, err
	}
	if err := decodeChanges(&next.Spec, oldSpec, newSpec, fieldSpec); err != nil {
		return nil, err
	}
	return &next, nil
}

// bothMembers returns a member of two objects; see [document.Member].
func bothMembers(before, after map[string]any, name string) (old, now map[string]any, err error) {
	if old, err = document.Member(before, name); err != nil {
		return nil, nil, err
	}
	if now, err = document.Member(after, name); err != nil {
		return nil, nil, err
	}
	return old, now, nil
}
