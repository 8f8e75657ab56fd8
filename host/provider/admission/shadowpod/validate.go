package shadowpod

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/provider/quota"
)

// Validator validates ShadowPods and has their resources reserved.
type Validator struct {
	// Decoder decodes the wire objects.
	Decoder admission.Decoder
	// Reader reads namespaces from the cache, APIReader those that the cache does not have yet.
	Reader, APIReader client.Reader
	// Quotas admits ShadowPods. It is nil when resources are not enforced.
	Quotas *quota.Enforcer
}

var _ admission.Handler = (*Validator)(nil)

// Handle implements admission.Handler.
//
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
func (v *Validator) Handle(ctx context.Context, request admission.Request) admission.Response {
	shadow := &offloadingv1beta1.ShadowPod{}
	if err := v.Decoder.DecodeRaw(request.Object, shadow); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the ShadowPod: %w", err))
	}
	switch request.Operation {
	case admissionv1.Create:
		return v.create(ctx, &request, shadow)
	case admissionv1.Update:
		before := &offloadingv1beta1.ShadowPod{}
		if err := v.Decoder.DecodeRaw(request.OldObject, before); err != nil {
			return admission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the old ShadowPod: %w", err))
		}
		if denial := validateUpdate(before, shadow); denial != "" {
			return admission.Denied(denial)
		}
	case admissionv1.Delete, admissionv1.Connect: // not sent to this webhook
	}
	return admission.Allowed("")
}

func (v *Validator) create(ctx context.Context, request *admission.Request, shadow *offloadingv1beta1.ShadowPod) admission.Response {
	shadow.Namespace = request.Namespace
	_, denial, err := checkOrigin(ctx, shadow.Labels, shadow.Namespace, v.Reader, v.APIReader)
	switch {
	case err != nil:
		return admission.Errored(http.StatusInternalServerError, err)
	case denial != "":
		return admission.Denied(denial)
	case v.Quotas == nil:
		return admission.Allowed("")
	case !v.Quotas.Account.Synced():
		return admission.Errored(http.StatusInternalServerError, errors.New("the ShadowPods of this cluster are not known yet"))
	}
	user := quota.LabelValue(request.UserInfo.Username)
	if shadow.Labels[offloadingv1beta1.CreatorUserLabel] != user {
		return admission.Denied(fmt.Sprintf("label %s must be the creator, %q", offloadingv1beta1.CreatorUserLabel, user))
	}
	err = v.Quotas.Admit(ctx, user, shadow, ptr.Deref(request.DryRun, false))
	var denied *quota.Denied
	switch {
	case errors.As(err, &denied):
		return admission.Denied(denied.Reason)
	case err != nil:
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.Allowed("")
}

// validateUpdate returns why an update is denied, or "" (wire 2.5). It is pure.
func validateUpdate(before, after *offloadingv1beta1.ShadowPod) string {
	origin := before.Labels[offloadingv1beta1.OriginLabel]
	// Removing a finalizer must succeed even if the object is invalid.
	isDeleted := !after.DeletionTimestamp.IsZero()
	if !isDeleted && origin == "" || after.Labels[offloadingv1beta1.OriginLabel] != origin {
		return fmt.Sprintf("label %s is missing or changes", offloadingv1beta1.OriginLabel)
	}
	// What Kubernetes lets change in a pod, too.
	allowed := after.Spec.Pod.DeepCopy()
	allowed.ActiveDeadlineSeconds, allowed.Tolerations = before.Spec.Pod.ActiveDeadlineSeconds, before.Spec.Pod.Tolerations
	keepImages(allowed.Containers, before.Spec.Pod.Containers)
	keepImages(allowed.InitContainers, before.Spec.Pod.InitContainers)
	if !equality.Semantic.DeepEqual(allowed, &before.Spec.Pod) {
		return "only images, activeDeadlineSeconds and tolerations of a ShadowPod may change: delete it and create it again"
	}
	return ""
}

// keepImages sets the images to those of the containers before, as many as there are (T66).
func keepImages(after, before []corev1.Container) {
	for i := range min(len(after), len(before)) {
		after[i].Image = before[i].Image
	}
}
