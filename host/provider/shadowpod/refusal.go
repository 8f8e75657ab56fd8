package shadowpod

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/events"
)

// maxMessage bounds what a ShadowPod's status quotes, in bytes.
const maxMessage = 1024

// refuse reports that a pod cannot be created: to the provider in an event on the ShadowPod,
// and to the pod's owner in the consumer through the ShadowPod's status, once for each
// cause. related is the pod that holds the name, or nil.
func (r *Reconciler) refuse(ctx context.Context, shadow *offloadingv1beta1.ShadowPod, related runtime.Object, message string) error {
	r.Events.Eventf(shadow, related, corev1.EventTypeWarning, offloadingv1beta1.FailedCreatePodReason, actionCreatePod, "Pod not created: %s", message)
	message = events.Cut(message, maxMessage)
	if shadow.Status.Reason == offloadingv1beta1.FailedCreatePodReason && shadow.Status.Message == message {
		return nil
	}
	err := r.patchStatus(ctx, shadow, map[string]any{"reason": offloadingv1beta1.FailedCreatePodReason, "message": message})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing why ShadowPod %s/%s has no pod: %w", shadow.Namespace, shadow.Name, err)
	}
	return nil
}

// refusal returns why the security level, the API server or one of its webhooks refuses the
// pod; it is empty when a mere repetition may help.
func refusal(err error) string {
	var forbidden *forbiddenError
	if errors.As(err, &forbidden) {
		return forbidden.reason
	}
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return ""
	}
	status := answer.Status()
	switch status.Code {
	case http.StatusUnauthorized, http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return ""
	}
	// A webhook that cannot be asked is an internal error.
	if status.Code/100 == 4 || apierrors.IsInternalError(err) {
		return status.Message
	}
	return ""
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
