package shadowpod

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/podupdate"
	"github.com/longshore-dev/longshore/host/kit/quantity"
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
	if isRequested(request.Operation, shadow) {
		// Also without Quotas: the provider's scheduler and controllers compute with what its pod has.
		if err := quantity.CheckAll(&shadow.Spec); err != nil {
			return admission.Denied("spec." + err.Error())
		}
		if problem := tooLarge(request.Object.Raw, request.OldObject.Raw); problem != "" {
			return admission.Denied(problem)
		}
	}
	switch request.Operation {
	case admissionv1.Create:
		return v.create(ctx, &request, shadow)
	case admissionv1.Update:
		before := &offloadingv1beta1.ShadowPod{}
		if err := v.Decoder.DecodeRaw(request.OldObject, before); err != nil {
			return admission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the old ShadowPod: %w", err))
		}
		return v.update(ctx, &request, before, shadow)
	case admissionv1.Delete, admissionv1.Connect: // not sent to this webhook
	}
	return admission.Allowed("")
}

func (v *Validator) create(ctx context.Context, request *admission.Request, shadow *offloadingv1beta1.ShadowPod) admission.Response {
	// A creation may have a resource version of the consumer's, which would make it a change.
	shadow.Namespace, shadow.ResourceVersion = request.Namespace, ""
	_, denial, err := checkOrigin(ctx, shadow.Labels, shadow.Namespace, v.Reader, v.APIReader)
	switch {
	case err != nil:
		return admission.Errored(http.StatusInternalServerError, err)
	case denial != "":
		return admission.Denied(denial)
	case v.Quotas == nil:
		return admission.Allowed("")
	}
	user := quota.LabelValue(request.UserInfo.Username)
	if shadow.Labels[offloadingv1beta1.CreatorUserLabel] != user {
		return admission.Denied(fmt.Sprintf("label %s must be the creator, %q", offloadingv1beta1.CreatorUserLabel, user))
	}
	return v.reserve(ctx, request, user, nil, shadow)
}

// reserve reserves the resources of a ShadowPod in the Quota of a user.
func (v *Validator) reserve(ctx context.Context, request *admission.Request, user string, before, shadow *offloadingv1beta1.ShadowPod) admission.Response {
	if !v.Quotas.Account.Synced() {
		return admission.Errored(http.StatusInternalServerError, errors.New("the ShadowPods of this cluster are not known yet"))
	}
	err := v.Quotas.Admit(ctx, user, before, shadow, ptr.Deref(request.DryRun, false))
	var denied *quota.Denied
	switch {
	case errors.As(err, &denied):
		return admission.Denied(denied.Reason)
	case err != nil:
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.Allowed("")
}

// update admits what Kubernetes lets change in a running pod. Other resources are reserved in the
// Quota of the user that created the ShadowPod.
func (v *Validator) update(ctx context.Context, request *admission.Request, before, shadow *offloadingv1beta1.ShadowPod) admission.Response {
	if denial := validateUpdate(before, shadow); denial != "" {
		return admission.Denied(denial)
	}
	user := before.Labels[offloadingv1beta1.CreatorUserLabel]
	if v.Quotas == nil || user == "" || !shadow.DeletionTimestamp.IsZero() || !isResized(&before.Spec.Pod, &shadow.Spec.Pod) {
		return admission.Allowed("")
	}
	shadow.Namespace, shadow.ResourceVersion = request.Namespace, before.ResourceVersion
	return v.reserve(ctx, request, user, before, shadow)
}

// isResized reports whether the resources of a container or of the pod differ.
func isResized(before, after *corev1.PodSpec) bool {
	return !quantity.Equal(resourcesOf(before), resourcesOf(after))
}

// resourcesOf returns the resources of the pod, which may be nil, of its init containers and of its
// containers.
func resourcesOf(spec *corev1.PodSpec) []*corev1.ResourceRequirements {
	all := []*corev1.ResourceRequirements{spec.Resources}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			all = append(all, &containers[i].Resources)
		}
	}
	return all
}

// validateUpdate returns why an update is denied, or "". It is pure.
func validateUpdate(before, after *offloadingv1beta1.ShadowPod) string {
	origin := before.Labels[offloadingv1beta1.OriginLabel]
	// Removing a finalizer must succeed even if the object is invalid.
	isDeleted := !after.DeletionTimestamp.IsZero()
	if !isDeleted && origin == "" || after.Labels[offloadingv1beta1.OriginLabel] != origin {
		return fmt.Sprintf("label %s is missing or changes", offloadingv1beta1.OriginLabel)
	}
	if !quantity.Equal(podupdate.WithoutLive(&before.Spec.Pod, &after.Spec.Pod), &before.Spec.Pod) {
		return "only images, CPU and memory, activeDeadlineSeconds and tolerations of a ShadowPod may change, and ephemeral containers be added: " +
			"delete it and create it again"
	}
	if isDeleted {
		// Its pod is not changed any more, and keeps what it has while finalizers hold the ShadowPod.
		if isResized(&before.Spec.Pod, &after.Spec.Pod) {
			return "the resources of a ShadowPod that is being deleted may not change"
		}
		return ""
	}
	return validateResize(&before.Spec.Pod, &after.Spec.Pod)
}

// validateResize returns why other resources are denied, or "": the API server would refuse them in the
// pod, which would keep what it has while its quota counts less (KEP 1287). Containers are the same. It
// is pure.
func validateResize(before, after *corev1.PodSpec) string {
	init := func(c *corev1.Container) bool {
		return ptr.Deref(c.RestartPolicy, "") != corev1.ContainerRestartPolicyAlways
	}
	for i := range after.InitContainers {
		c := &after.InitContainers[i]
		if init(c) && !quantity.Equal(before.InitContainers[i].Resources, c.Resources) {
			return fmt.Sprintf("the resources of init container %q may not change", c.Name)
		}
	}
	old, changed := resourcesOf(before), resourcesOf(after)
	for i := range changed {
		if old[i] == nil || changed[i] == nil {
			continue
		}
		for name := range old[i].Requests {
			if _, ok := changed[i].Requests[name]; !ok {
				return fmt.Sprintf("a request for %s may change, but not be removed", name)
			}
		}
		for name := range old[i].Limits {
			if _, ok := changed[i].Limits[name]; !ok {
				return fmt.Sprintf("a limit of %s may change, but not be removed", name)
			}
		}
	}
	if was, becomes := qosClass(before), qosClass(after); was != becomes {
		return fmt.Sprintf("the resources change the QoS class of the pod from %s to %s, which may not change", was, becomes)
	}
	return ""
}

// qosClass returns the QoS class that the API server computes of CPU and memory. A limit without a
// request is the request.
func qosClass(spec *corev1.PodSpec) corev1.PodQOSClass {
	all := resourcesOf(spec)
	if spec.Resources != nil {
		all = []*corev1.ResourceRequirements{spec.Resources}
	}
	isSet, isGuaranteed := false, true
	for _, resources := range all {
		if resources == nil {
			continue
		}
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			limit, request := resources.Limits[name], resources.Requests[name]
			if _, ok := resources.Requests[name]; !ok {
				request = limit
			}
			isSet = isSet || limit.Sign() > 0 || request.Sign() > 0
			isGuaranteed = isGuaranteed && limit.Sign() > 0 && quantity.Equal(request, limit)
		}
	}
	switch {
	case !isSet:
		return corev1.PodQOSBestEffort
	case isGuaranteed:
		return corev1.PodQOSGuaranteed
	default:
		return corev1.PodQOSBurstable
	}
}
