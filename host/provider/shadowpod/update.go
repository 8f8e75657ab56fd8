package shadowpod

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/podupdate"
	"github.com/longshore-dev/longshore/host/kit/quantity"
)

// podSpec is the path of the spec in a pod.
const podSpec = "/spec"

// updateSpec applies what has changed in the ShadowPod's spec since the pod was made from it, of
// the fields that may change. Fields that have not changed stay as the provider's admission has
// set them. It records in want what is applied: the annotation is written with the metadata. A
// pod that has no such annotation keeps its spec. The result is how soon a refused change is
// tried again; 0 if none was.
func (r *Reconciler) updateSpec(ctx context.Context, shadow *offloadingv1beta1.ShadowPod, pod, want *corev1.Pod) (time.Duration, error) {
	text, recorded := pod.Annotations[podupdate.AppliedAnnotation]
	if !recorded {
		delete(want.Annotations, podupdate.AppliedAnnotation)
		return 0, nil
	}
	if err := quantity.CheckAll(&shadow.Spec.Pod); err != nil {
		want.Annotations[podupdate.AppliedAnnotation] = text
		r.Events.Eventf(pod, shadow, corev1.EventTypeWarning, reasonFailedUpdatePod, actionUpdatePod, "Change of the pod not applied: spec.%s", err)
		return longestPause, nil
	}
	desired, applied := podupdate.FieldsOf(&shadow.Spec.Pod), podupdate.Decode(text)
	applied.Complete(desired)
	var retryAfter time.Duration
	for _, step := range podupdate.Compare(&pod.Spec, &shadow.Spec.Pod, desired.Changed(applied), podSpec) {
		err := r.applyStep(ctx, shadow, pod, step)
		refusal := refusalMessage(err)
		if step.Subresource != podupdate.SubresourcePod && apierrors.IsNotFound(err) {
			// An API server before 1.33 has no subresource resize. A pod that is gone has an event.
			refusal = fmt.Sprintf("the API server of the provider has no subresource %q of pods: %v", step.Subresource, err)
		}
		switch {
		case err == nil:
			applied.Take(desired, step.Fields)
			continue
		case refusal != "":
			r.Events.Eventf(pod, shadow, corev1.EventTypeWarning, reasonFailedUpdatePod, actionUpdatePod,
				"Change of the pod not applied (%s): %s", strings.Join(step.Fields, ", "), refusal)
		case !apierrors.IsConflict(err):
			return 0, err
		}
		retryAfter = soonest(retryAfter, pauseAfter(err))
	}
	want.Annotations[podupdate.AppliedAnnotation] = applied.Encode()
	return retryAfter, nil
}

// pauseAfter returns how soon a change of a pod that was refused is tried again: a refusal is likely
// to stand, an internal error, such as a webhook that cannot be reached, is not.
func pauseAfter(err error) time.Duration {
	switch {
	case apierrors.IsConflict(err):
		return conflictRetry
	case apierrors.IsInternalError(err):
		return creationRetry
	default:
		return longestPause
	}
}

// soonest returns the shortest of durations, of which 0 is none.
func soonest(durations ...time.Duration) time.Duration {
	var shortest time.Duration
	for _, d := range durations {
		if d > 0 && (shortest == 0 || d < shortest) {
			shortest = d
		}
	}
	return shortest
}

// applyStep sends the patch of one step. New ephemeral containers are checked like the
// containers of a new pod.
func (r *Reconciler) applyStep(ctx context.Context, shadow *offloadingv1beta1.ShadowPod, pod *corev1.Pod, step podupdate.Step) error {
	if len(step.Operations) == 0 {
		return nil
	}
	if step.Subresource == podupdate.SubresourceEphemeral {
		candidate := pod.DeepCopy()
		candidate.Spec.NodeName = "" // the scheduler has chosen it
		candidate.Spec.EphemeralContainers = append(candidate.Spec.EphemeralContainers,
			podupdate.Added(pod.Spec.EphemeralContainers, shadow.Spec.Pod.EphemeralContainers)...)
		if err := r.checkSecurity(ctx, candidate); err != nil {
			return err
		}
	}
	isSame := podupdate.Operation{Op: "test", Path: "/metadata/uid", Value: pod.UID}
	data, err := json.Marshal(append([]podupdate.Operation{isSame}, step.Operations...))
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	patch, patched := client.RawPatch(types.JSONPatchType, data), pod.DeepCopy()
	if step.Subresource == podupdate.SubresourcePod {
		err = r.Client.Patch(ctx, patched, patch, client.FieldOwner(FieldManager))
	} else {
		err = r.Client.SubResource(step.Subresource).Patch(ctx, patched, patch, client.FieldOwner(FieldManager))
	}
	if err != nil {
		return fmt.Errorf("updating the %s of pod %s/%s: %w", strings.Join(step.Fields, ", "), pod.Namespace, pod.Name, err)
	}
	// Later steps and the metadata are sent for this version.
	*pod = *patched
	return nil
}
