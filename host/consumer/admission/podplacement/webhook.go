// Package podplacement is Pod flow, stage 1: the webhook for new pods in offloaded namespaces. It
// gathers the facts, calls the PodMutation policies (moment Admission) and responds with a patch of
// their changes.
//
// A pod is rejected if its namespace has the scheduling label but no NamespaceOffloading: pods
// must not be created before the offloading is defined.
package podplacement

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/forge/invariants"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/view"
)

// Path is the URL path of the webhook.
const Path = "/mutate/pod"

// Handler answers admission requests for pods.
type Handler struct {
	// Reader reads NamespaceOffloadings and namespaces, from a cache.
	Reader client.Reader
	// Policies evaluates the policies.
	Policies view.Evaluator
	// RuntimeClassName is the cluster's Liqo runtime class.
	RuntimeClassName string
}

var _ admission.Handler = (*Handler)(nil)

// Handle implements admission.Handler.
//
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=namespaceoffloadings,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
func (h *Handler) Handle(ctx context.Context, request admission.Request) admission.Response {
	result, status, err := h.Admit(ctx, request.Namespace, view.AdmissionInput{
		Raw:    request.Object.Raw,
		User:   request.UserInfo.Username,
		Groups: request.UserInfo.Groups,
		DryRun: request.DryRun != nil && *request.DryRun,
	})
	if err != nil {
		return admission.Errored(status, err)
	}
	if result.Denial != nil {
		return admission.Denied(result.Denial.Error()).WithWarnings(result.Warnings...)
	}
	return patchResponse(result)
}

// Admit decides about a pod of a namespace: facts, policies, invariants. The input has the pod
// and the request. The status is the HTTP code of an error.
func (h *Handler) Admit(ctx context.Context, namespace string, in view.AdmissionInput) (result *view.AdmissionResult, status int32, err error) {
	facts, err := h.gather(ctx, namespace)
	if err != nil {
		return nil, http.StatusInternalServerError, err
	}
	in.Offloading, in.Namespace, in.RuntimeClassName = &facts.offloading.Spec, facts.namespace, h.RuntimeClassName
	result, err = view.AdmitPod(ctx, h.Policies, in)
	switch {
	case errors.Is(err, chain.TooLarge):
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("evaluating the policies: %w", err)
	case err != nil:
		return nil, http.StatusInternalServerError, fmt.Errorf("evaluating the policies: %w", err)
	case result.Denial != nil:
		return result, 0, nil
	}
	if err := checkInvariants(result); err != nil {
		return nil, http.StatusInternalServerError, err
	}
	return result, 0, nil
}

// Annotation returns the decisions about a pod, as the annotation of the admitted pod records
// them; "" for none.
func Annotation(result *view.AdmissionResult) (string, error) {
	room, err := result.DecisionsRoom()
	if err != nil || !result.Changed {
		return "", err
	}
	return view.EncodeDecisions(result.Decisions, room), nil
}

// checkInvariants returns an error if policies changed what no policy may change at admission.
func checkInvariants(result *view.AdmissionResult) error {
	err := result.Check(invariants.HarmlessField, invariants.CheckAdmission)
	broken, ok := errors.AsType[*invariants.Error](err)
	if !ok {
		return err
	}
	return fmt.Errorf("%s violated an invariant: %w; the author must correct the policy, until then an operator can narrow spec.allow.writes or disable the OffloadingPolicy",
		view.ChangedBy(result.Decisions, broken.Causes()), err)
}

// patchResponse returns a response with a patch of the policies' changes. The pod is not decoded as a
// whole, so that unknown fields are kept.
func patchResponse(result *view.AdmissionResult) admission.Response {
	response := admission.Allowed("").WithWarnings(result.Warnings...)
	if !result.Changed {
		return response
	}
	patch, err := encodePatch(result)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("encoding the patch of the pod: %w", err))
	}
	kind := admissionv1.PatchTypeJSONPatch
	response.Patch, response.PatchType = patch, &kind
	return response
}

// encodePatch returns the patch with the annotation of the decisions.
func encodePatch(result *view.AdmissionResult) ([]byte, error) {
	text, err := Annotation(result)
	if err != nil {
		return nil, err
	}
	if text == "" {
		return result.JSONPatch(nil)
	}
	return result.JSONPatch(map[string]string{policyv1alpha1.DecisionsAnnotation: text})
}

type facts struct {
	offloading *offloadingv1beta1.NamespaceOffloading
	namespace  *corev1.Namespace
}

// gather reads the facts. The namespace is that of the request, since the pod's may be empty.
func (h *Handler) gather(ctx context.Context, namespace string) (*facts, error) {
	f := &facts{offloading: &offloadingv1beta1.NamespaceOffloading{}, namespace: &corev1.Namespace{}}
	err := h.Reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: offloadingv1beta1.NamespaceOffloadingName}, f.offloading)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("namespace %q has label %s but no NamespaceOffloading %q yet: create it, or remove the label",
			namespace, offloadingv1beta1.SchedulingEnabledLabel, offloadingv1beta1.NamespaceOffloadingName)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the NamespaceOffloading of namespace %q: %w", namespace, err)
	}
	err = h.Reader.Get(ctx, client.ObjectKey{Name: namespace}, f.namespace)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading namespace %q: %w", namespace, err)
	}
	f.namespace.Name = namespace
	return f, nil
}
