// Package policymodule is the webhook that refuses bad policies at the door: it runs the
// code that loads and binds them on every OffloadingPolicy that is written, and on the
// ConfigMaps that hold modules. Who writes a bad one reads at once what is wrong.
//
// It is a courtesy, not the guard: a policy that gets past it, for example while no
// replica serves, is judged again by every component that loads it, and told in its
// status. So the webhook is registered to be skipped when it cannot be reached.
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

// Path is where the webhook is served.
const Path = "/validate/policies"

// Patience bounds the time of an answer. The API server waits longer; a policy that cannot be
// judged in time, because others are being judged or the machine is busy, is admitted with
// a warning, and its status says what came of loading it.
const Patience = 12 * time.Second

// Judge finds out whether a policy could be bound, with a ConfigMap that is about to be
// stored in the place of the one in the cluster.
type Judge interface {
	Judge(ctx context.Context, policy *policyv1alpha1.OffloadingPolicy, stored *corev1.ConfigMap) (policysource.Verdict, error)
}

// Handler answers admission requests for OffloadingPolicies and for ConfigMaps.
type Handler struct {
	// Decoder decodes the objects.
	Decoder admission.Decoder
	// Reader reads OffloadingPolicies from a cache.
	Reader client.Reader
	// Judge of policies.
	Judge Judge
	// Namespace is Longshore's own: labeled ConfigMaps are policies there only.
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
	// What is going away, and what changes in its metadata only, can be written whatever
	// the spec holds: it may be from before this webhook.
	if !after.DeletionTimestamp.IsZero() || request.Operation == admissionv1.Update && equality.Semantic.DeepEqual(before.Spec, after.Spec) {
		return admission.Allowed("")
	}
	verdict, err := h.Judge.Judge(ctx, after, nil)
	return response(verdict, err)
}

// configMap judges the policies that a ConfigMap is, or holds the module of.
func (h *Handler) configMap(ctx context.Context, request admission.Request) admission.Response {
	after, before := &corev1.ConfigMap{}, &corev1.ConfigMap{}
	if err := h.decode(request, after, before); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	after.Namespace = request.Namespace
	labeled := configmap.Selected(after)
	unchanged := request.Operation == admissionv1.Update && labeled == configmap.Selected(before) &&
		reflect.DeepEqual(before.BinaryData, after.BinaryData) && reflect.DeepEqual(before.Data, after.Data)
	if !after.DeletionTimestamp.IsZero() || unchanged {
		return admission.Allowed("")
	}
	if labeled && after.Namespace != h.Namespace {
		return admission.Allowed("").WithWarnings(fmt.Sprintf(
			"label %s has no effect in namespace %q: a ConfigMap is a policy in namespace %q only", policyv1alpha1.PolicyLabel, after.Namespace, h.Namespace))
	}
	policies, bad, err := h.policiesOf(ctx, after, labeled)
	if err != nil {
		return response(policysource.Verdict{}, err)
	}
	if bad != nil {
		return admission.Denied(fmt.Sprintf("ConfigMap %s is no policy: %v", after.Name, bad))
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

// policiesOf returns the policies that depend on a ConfigMap: the one that it is, if it
// is labeled, and those that name it. bad says why it is none although it is labeled.
func (h *Handler) policiesOf(ctx context.Context, source *corev1.ConfigMap, labeled bool) (found []*policyv1alpha1.OffloadingPolicy, bad, err error) {
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
		itself := labeled && policy.Name == source.Name
		if holdsModuleOf(source, policy) && !itself {
			found = append(found, policy)
		}
	}
	if !labeled {
		return found, nil, nil
	}
	spec, problem := configmap.Spec(source)
	if problem != nil {
		return nil, problem.Err, nil
	}
	if same != nil && !configmap.Kept(same) {
		return nil, fmt.Errorf("OffloadingPolicy %q exists and was not made from a ConfigMap: delete it, or give the ConfigMap another name", source.Name), nil
	}
	policy := &policyv1alpha1.OffloadingPolicy{ObjectMeta: metav1.ObjectMeta{Name: source.Name}, Spec: *spec}
	return append(found, policy), nil, nil
}

// holdsModuleOf tells whether a policy names the ConfigMap, as its module or a part of it.
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
		return admission.Allowed("").WithWarnings(fmt.Sprintf("not checked within %s: conditions of the policy say what comes of loading it", Patience))
	case err != nil:
		// Ours to mend, and nothing that the author can do about.
		return admission.Allowed("").WithWarnings(fmt.Sprintf("not checked, the status of the policy will tell: %v", err))
	case verdict.Denial != "":
		return admission.Denied(verdict.Denial)
	default:
		return admission.Allowed("").WithWarnings(verdict.Warnings...)
	}
}
