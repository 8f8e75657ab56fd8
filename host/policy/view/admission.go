package view

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/operation"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// AdmissionInput are the facts about a pod that is being created.
type AdmissionInput struct {
	// Pod that is being created. It is not altered.
	Pod *corev1.Pod
	// Raw is the pod's JSON as the API server sent it. It stands instead of Pod for a
	// caller that answers with [AdmissionResult.JSONPatch]: the pod is then never decoded
	// whole, which is several times faster.
	Raw []byte
	// Offloading is the NamespaceOffloading of the pod's namespace.
	Offloading *offloadingv1beta1.NamespaceOffloadingSpec
	// Namespace of the pod; at least its name is set.
	Namespace *corev1.Namespace
	// User and Groups who create the pod.
	User   string
	Groups []string
	// DryRun tells that the pod will not be stored.
	DryRun bool
	// RuntimeClassName is the cluster's Liqo runtime class.
	RuntimeClassName string
}

// AdmissionResult is what the policies decided about a pod.
type AdmissionResult struct {
	// Pod afterwards: the input's when nothing changed, else a copy that shares with it
	// what did not. Nil when the input was Raw.
	Pod *corev1.Pod
	// Changed tells whether a policy changed the pod.
	Changed bool
	// Decisions of the policies asked.
	Decisions []chain.Decision
	// Denial is set when a policy refused the pod.
	Denial *chain.Denied
	// Warnings for the user who creates the pod.
	Warnings []string

	before, after map[string]any
}

// offloadingFacts is contract.NamespaceOffloading on the API's own types.
type offloadingFacts struct {
	PodOffloadingStrategy offloadingv1beta1.PodOffloadingStrategyType `json:"podOffloadingStrategy"`
	ClusterSelector       corev1.NodeSelector                         `json:"clusterSelector"`
}

// AdmitPod asks the PodMutation policies at the moment Admission (stage 1).
func AdmitPod(ctx context.Context, ev Evaluator, in AdmissionInput) (*AdmissionResult, error) {
	object, attributes, err := layOut(in)
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
			attributes.NamespaceLabels = map[string]string{} // known to have none
		}
	}
	var o outcome
	after, err := o.ask(ctx, ev, chain.Input{
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
	result.Pod, err = readPod(in.Pod, object, after)
	return result, err
}

// Pods returns the pod before and after the policies for a comparison of the two, or
// false when they have changed nothing beyond fields of the spec that are harmless, by
// their JSON names, and metadata. What this host does not know of a pod is left out on
// both sides.
func (r *AdmissionResult) Pods(harmless func(field string) bool) (before, after *corev1.Pod, compare bool, err error) {
	old, now, err := both(r.before, r.after, fieldSpec)
	if err != nil {
		return nil, nil, false, err
	}
	metadata := slices.Contains(changed(r.before, r.after), fieldMetadata)
	if !metadata && !slices.ContainsFunc(changed(old, now), func(field string) bool { return !harmless(field) }) {
		return nil, nil, false, nil
	}
	if before, err = typed(r.before); err != nil {
		return nil, nil, false, err
	}
	after, err = typed(r.after)
	return before, after, err == nil, err
}

// typed decodes a pod's layout.
func typed(object map[string]any) (*corev1.Pod, error) {
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

// layOut returns the pod as policies see it, and what bindings are matched with.
func layOut(in AdmissionInput) (map[string]any, chain.Attributes, error) {
	var attributes chain.Attributes
	if in.Pod != nil {
		metadata, err := operation.Members(&in.Pod.ObjectMeta)
		if err != nil {
			return nil, attributes, fmt.Errorf("laying out the pod's metadata: %w", err)
		}
		attributes.Namespace, attributes.Labels = in.Pod.Namespace, in.Pod.Labels
		object, err := podObject(metadata, &in.Pod.Spec)
		return object, attributes, err
	}
	object, err := operation.Split(in.Raw, fieldMetadata, fieldSpec)
	if err != nil {
		return nil, attributes, fmt.Errorf("reading the pod: %w", err)
	}
	metadata, err := member(object, fieldMetadata)
	if err != nil {
		return nil, attributes, err
	}
	for field, target := range map[string]any{fieldLabels: &attributes.Labels, "namespace": &attributes.Namespace} {
		if raw, ok := metadata[field].(json.RawMessage); ok {
			if err := json.Unmarshal(raw, target); err != nil {
				return nil, attributes, fmt.Errorf("reading the pod's metadata.%s: %w", field, err)
			}
		}
	}
	return object, attributes, nil
}

// checkPod reads back what changed, only to see that it can be. What this host did not
// know before a policy wrote is the API server's business.
func checkPod(before, after map[string]any) error {
	if len(changed(before, after)) == 0 {
		return nil
	}
	if err := checkMetadata(before, after); err != nil || fits(before, after) {
		return err
	}
	_, err := readPod(&corev1.Pod{}, before, after)
	if err == nil {
		return nil
	}
	if _, beforeErr := readPod(&corev1.Pod{}, nil, restricted(before, after)); beforeErr != nil {
		return nil // the same fields did not fit before: a newer API server's, not a policy's
	}
	return err
}

// fits tells, without reading it, that what changed can be read back.
func fits(before, after map[string]any) bool {
	for name, target := range map[string]reflect.Type{
		fieldMetadata: reflect.TypeFor[metav1.ObjectMeta](), fieldSpec: reflect.TypeFor[corev1.PodSpec](),
	} {
		old, now, err := both(before, after, name)
		if err != nil {
			return false
		}
		members := map[string]any{}
		for _, field := range changed(old, now) {
			if value := now[field]; value != nil {
				members[field] = value
			}
		}
		if !operation.Fits(members, target) {
			return false
		}
	}
	return true
}

// restricted returns of before the members of metadata and spec that differ in after.
func restricted(before, after map[string]any) map[string]any {
	out := map[string]any{}
	for _, name := range []string{fieldMetadata, fieldSpec} {
		old, now, err := both(before, after, name)
		if err != nil {
			continue
		}
		members := map[string]any{}
		for _, field := range changed(old, now) {
			if value, err := operation.Normalize(old[field]); err == nil && value != nil {
				members[field] = value
			}
		}
		out[name] = members
	}
	return out
}

// readPod returns the pod with what changed between two layouts of it.
func readPod(pod *corev1.Pod, before, after map[string]any) (*corev1.Pod, error) {
	if len(changed(before, after)) == 0 {
		return pod, nil
	}
	next := *pod
	oldMetadata, newMetadata, err := both(before, after, fieldMetadata)
	if err != nil {
		return nil, err
	}
	if err := readBack(&next.ObjectMeta, oldMetadata, newMetadata, fieldMetadata); err != nil {
		return nil, err
	}
	oldSpec, newSpec, err := both(before, after, fieldSpec)
	if err != nil {
		return nil, err
	}
	if err := readBack(&next.Spec, oldSpec, newSpec, fieldSpec); err != nil {
		return nil, err
	}
	return &next, nil
}

// both returns a member of two objects.
func both(before, after map[string]any, name string) (old, now map[string]any, err error) {
	if old, err = member(before, name); err != nil {
		return nil, nil, err
	}
	if now, err = member(after, name); err != nil {
		return nil, nil, err
	}
	return old, now, nil
}
