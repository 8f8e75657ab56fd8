// Package policymodule is the webhook for OffloadingPolicies and for the ConfigMaps that hold
// modules. It runs the code that loads and binds them, so that the author of a bad policy gets
// an error at once.
//
// The cluster does not depend on it: every component checks a policy again when it loads it,
// and reports problems in the status. The webhook is registered to be skipped when it cannot
// be reached. Objects whose content does not change are never refused. Two policies that
// conflict and are written at the same moment may both pass; the newer one is then refused in its
// status.
package policymodule

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policysource"
	"github.com/longshore-dev/longshore/host/policysource/configmap"
)

// Path is the path of the webhook.
const Path = "/validate/policies"

// Patience bounds the time of an answer; the API server's timeout is longer. A policy that cannot
// be checked in time is admitted with a warning, and its status shows the result.
const Patience = 12 * time.Second

// Judge checks whether a policy could be bound. The ConfigMap stored, if it is not nil, takes the
// place of the one in the cluster.
type Judge interface {
	Judge(ctx context.Context, policy *policyv1alpha1.OffloadingPolicy, stored *corev1.ConfigMap) (policysource.Verdict, error)
}

// Handler answers admission requests for OffloadingPolicies and for ConfigMaps.
type Handler struct {
	// Decoder decodes the objects.
	Decoder admission.Decoder
	// Reader reads OffloadingPolicies from a cache.
	Reader client.Reader
	// Judge checks policies.
	Judge Judge
	// Namespace is Longshore's own namespace: only there a labeled ConfigMap is a policy.
	Namespace string
}

var _ admission.Handler = (*Handler)(nil)

// Handle implements admission.Handler.
func (h *Handler) Handle(ctx context.Context, request admission.Request) admission.Response {
	if request.Operation != admissionv1.Create && request.Operation != admissionv1.Update {
		return admission.Allowed("")
	}
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	if request.Kind.Kind == "ConfigMap" {
		return h.configMap(ctx, request)
	}
	return h.policy(ctx, request)
}

func (h *Handler) policy(ctx context.Context, request admission.Request) admission.Response {
	after, before := &policyv1alpha1.OffloadingPolicy{}, &policyv1alpha1.OffloadingPolicy{}
	if err := h.decode(request, after, before); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	// Deletions and changes of metadata are admitted with any spec: it may be older than this
	// webhook.
	if !after.DeletionTimestamp.IsZero() || request.Operation == admissionv1.Update && equality.Semantic.DeepEqual(before.Spec, after.Spec) {
		return admission.Allowed("")
	}
	verdict, err := h.Judge.Judge(ctx, after, nil)
	return response(verdict, err)
}

// configMap checks the policies that are kept from a ConfigMap, or have it as their module.
func (h *Handler) configMap(ctx context.Context, request admission.Request) admission.Response {
	after, before := &corev1.ConfigMap{}, &corev1.ConfigMap{}
	if err := h.decode(request, after, before); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	after.Namespace = request.Namespace
	labeled := configmap.IsSelected(after)
	unchanged := request.Operation == admissionv1.Update && labeled == configmap.IsSelected(before) &&
		reflect.DeepEqual(before.BinaryData, after.BinaryData) && reflect.DeepEqual(before.Data, after.Data)
	if !after.DeletionTimestamp.IsZero() || unchanged {
		return admission.Allowed("")
	}
	if labeled && after.Namespace != h.Namespace {
		return admission.Allowed("").WithWarnings(fmt.Sprintf(
			"label %s has no effect in namespace %q: only ConfigMaps in namespace %q are policies", policyv1alpha1.PolicyLabel, after.Namespace, h.Namespace))
	}
	policies, problem, err := h.policiesOf(ctx, after, labeled)
	if err != nil {
		return response(policysource.Verdict{}, err)
	}
	if problem != nil {
		return admission.Denied(fmt.Sprintf("ConfigMap %s cannot be a policy: %v", after.Name, problem))
	}
	var warnings []string
	for _, policy := range policies {
		verdict, err := h.Judge.Judge(ctx, policy, after)
		if err != nil || verdict.Denial != "" {
			return response(verdict, err)
		}
		warnings = append(warnings, verdict.Warnings...)
	}
	return admission.Allowed("").WithWarnings(warnings...)
}

// policiesOf returns the policies that depend on a ConfigMap: the one that is kept from it, if it
// is labeled, and those that name it. The problem is why a labeled ConfigMap cannot be a
// policy.
func (h *Handler) policiesOf(ctx context.Context, source *corev1.ConfigMap, labeled bool) (found []*policyv1alpha1.OffloadingPolicy, problem, err error) {
	list := &policyv1alpha1.OffloadingPolicyList{}
	if err := h.Reader.List(ctx, list); err != nil {
		return nil, nil, fmt.Errorf("listing OffloadingPolicies: %w", err)
	}
	var same *policyv1alpha1.OffloadingPolicy
	for i := range list.Items {
		policy := &list.Items[i]
		if policy.Name == source.Name {
			same = policy
		}
		isKeptFrom := labeled && policy.Name == source.Name
		if holdsModuleOf(source, policy) && !isKeptFrom {
			found = append(found, policy)
		}
	}
	if !labeled {
		return found, nil, nil
	}
	spec, invalid := configmap.Spec(source)
	if invalid != nil {
		return nil, invalid.Err, nil
	}
	if same != nil && !configmap.IsManaged(same) {
		return nil, fmt.Errorf("OffloadingPolicy %q exists and is not managed by Longshore: delete it, or give the ConfigMap another name", source.Name), nil
	}
	policy := &policyv1alpha1.OffloadingPolicy{ObjectMeta: metav1.ObjectMeta{Name: source.Name}, Spec: *spec}
	return append(found, policy), nil, nil
}

// holdsModuleOf reports whether a policy names the ConfigMap as its module or a part of it.
func holdsModuleOf(source *corev1.ConfigMap, policy *policyv1alpha1.OffloadingPolicy) bool {
	from := policy.Spec.Module.ConfigMap
	return from != nil && from.Namespace == source.Namespace && (from.Name == source.Name || slices.Contains(from.Parts, source.Name))
}

func (h *Handler) decode(request admission.Request, after, before client.Object) error {
	if err := h.Decoder.DecodeRaw(request.Object, after); err != nil {
		return fmt.Errorf("decoding the %s: %w", request.Kind.Kind, err)
	}
	if request.Operation != admissionv1.Update {
		return nil
	}
	if err := h.Decoder.DecodeRaw(request.OldObject, before); err != nil {
		return fmt.Errorf("decoding the old %s: %w", request.Kind.Kind, err)
	}
	return nil
}

func response(verdict policysource.Verdict, err error) admission.Response {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return admission.Allowed("").WithWarnings(fmt.Sprintf("not checked within %s: see the status of the policy", Patience))
	case err != nil:
		// Longshore's failure: the author of the policy cannot correct it.
		return admission.Allowed("").WithWarnings(fmt.Sprintf("not checked, see the status of the policy: %v", err))
	case verdict.Denial != "":
		return admission.Denied(verdict.Denial)
	default:
		return admission.Allowed("").WithWarnings(verdict.Warnings...)
	}
}
