package trial

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/invariants"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// CheckInvariants compares a pod before and after the policy, as a cluster does after the
// last one: as a pod that is created, or as one that is offloaded.
func CheckInvariants(q *Question, result *chain.Result) error {
	kind, hasKind := q.Object["kind"].(string)
	if !result.Changed || q.Point == contract.MetadataFilter || q.Point == contract.ResourceSliceAdmission || hasKind && kind != "Pod" {
		return nil
	}
	before, err := podOf(q.Object)
	if err != nil {
		return err
	}
	after, err := podOf(result.Object)
	if err != nil {
		return err
	}
	if q.Moment == contract.MomentAdmission || q.Point == contract.ShadowPodAdmission {
		return invariants.CheckAdmission(before, after)
	}
	draft := remote.PodDraft(before, before.Namespace, remote.Origin{})
	draft.Spec.Pod = before.Spec
	// A local pod may leave it open; a draft has it set.
	for _, spec := range []*corev1.PodSpec{&draft.Spec.Pod, &after.Spec} {
		if spec.AutomountServiceAccountToken == nil {
			spec.AutomountServiceAccountToken = new(bool)
		}
	}
	draft.Labels, draft.Annotations = before.Labels, before.Annotations
	changed := *draft
	changed.Spec = offloadingv1beta1.ShadowPodSpec{Pod: after.Spec}
	changed.Labels, changed.Annotations = after.Labels, after.Annotations
	// An input may be a local pod instead of a draft: what it has itself, no policy added.
	changed.Spec.Pod.NodeName = added(before.Spec.NodeName, after.Spec.NodeName)
	return invariants.CheckPod(before, draft, &changed)
}

// added returns the text after, or nothing if it is the one before.
func added(before, after string) string {
	if before == after {
		return ""
	}
	return after
}

func podOf(object map[string]any) (*corev1.Pod, error) {
	data, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encoding the pod: %w", err)
	}
	pod := &corev1.Pod{}
	if err := json.Unmarshal(data, pod); err != nil {
		return nil, fmt.Errorf("decoding the pod: %w", err)
	}
	return pod, nil
}
