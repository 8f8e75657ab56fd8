package shadowpod

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/events"
	"github.com/longshore-dev/longshore/host/kit/reported"
	"github.com/longshore-dev/longshore/host/provider/refusal"
)

// maxMessage is the longest message in a ShadowPod's status, in bytes.
const maxMessage = 1024

// reportRefusal reports that the pod cannot be created: in an event on the ShadowPod, and once
// per cause in the ShadowPod's status, which the consumer reads. related is the pod that has
// the name, or nil.
func (r *Reconciler) reportRefusal(ctx context.Context, shadow *offloadingv1beta1.ShadowPod, related runtime.Object, message string) error {
	r.Events.Eventf(shadow, related, corev1.EventTypeWarning, offloadingv1beta1.FailedCreatePodReason, actionCreatePod, "Pod not created: %s", message)
	message = events.Cut(message, maxMessage)
	if shadow.Status.Reason == offloadingv1beta1.FailedCreatePodReason && shadow.Status.Message == message {
		return nil
	}
	err := r.patchStatus(ctx, shadow, map[string]any{"reason": offloadingv1beta1.FailedCreatePodReason, "message": message})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the refusal to ShadowPod %s/%s: %w", shadow.Namespace, shadow.Name, err)
	}
	return nil
}

// refuse reports why the pod cannot be created, and returns the error: as reported, unless the report failed.
func (r *Reconciler) refuse(ctx context.Context, shadow *offloadingv1beta1.ShadowPod, err error, message string) error {
	if reportErr := r.reportRefusal(ctx, shadow, nil, message); reportErr != nil {
		return errors.Join(err, reportErr)
	}
	return reported.Error(err)
}

// refusalMessage returns why the security level, the API server or a webhook refuses the pod.
// It is empty for errors that a retry may resolve.
func refusalMessage(err error) string {
	var forbidden *forbiddenError
	if errors.As(err, &forbidden) {
		return forbidden.reason
	}
	return refusal.Message(err)
}

// patchStatus sends a merge patch of the ShadowPod's status.
func (r *Reconciler) patchStatus(ctx context.Context, shadow *offloadingv1beta1.ShadowPod, status map[string]any) error {
	patch, err := mergePatch(map[string]any{"metadata": map[string]any{"uid": shadow.UID}, "status": status})
	if err != nil {
		return err
	}
	if err := r.Client.Status().Patch(ctx, shadow, patch, client.FieldOwner(FieldManager)); err != nil {
		return fmt.Errorf("patching the status: %w", err)
	}
	return nil
}
