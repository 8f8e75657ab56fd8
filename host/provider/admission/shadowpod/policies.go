package shadowpod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/invariants"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/view"
	"github.com/longshore-dev/longshore/host/provider/quota"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// auditKey is the key, below the name of the webhook, of the audit annotation with the decisions
// of the policies.
const auditKey = "decisions"

// whoActs is the end of the message of a ShadowPod that is denied for an error of a policy.
const whoActs = "an administrator of the provider must correct it, and the pod needs no change"

// Policies evaluates the ShadowPodAdmission policies.
type Policies struct {
	// Evaluator calls the policies.
	Evaluator view.Evaluator
	// Reader reads namespaces from the cache, APIReader those that the cache does not have yet.
	Reader, APIReader client.Reader
	// Quotas finds the Quota of a user. It is nil when resources are not enforced.
	Quotas *quota.Enforcer
}

// applies reports whether the policies decide about a request: it creates a ShadowPod, or changes of
// one what they read or are bound by. A pod is created from the current ShadowPod whenever the last one is
// gone.
func (p *Policies) applies(ctx context.Context, request *admission.Request, shadow *metav1.PartialObjectMetadata) (bool, error) {
	switch {
	case p == nil || !view.HasPolicies(p.Evaluator, contract.ShadowPodAdmission):
		return false, nil
	case request.Operation == admissionv1.Create:
		return true, nil
	case request.Operation != admissionv1.Update || !shadow.DeletionTimestamp.IsZero():
		return false, nil
	}
	change := view.ShadowPodChange{Before: request.OldObject.Raw, After: request.Object.Raw, Namespace: request.Namespace}
	if p.Quotas != nil {
		change.Ignored = []string{offloadingv1beta1.CreatorUserLabel} // which the Mutator keeps
	}
	changes, err := view.ChangesShadowPod(ctx, p.Evaluator, change)
	if err != nil {
		return false, fmt.Errorf("comparing the ShadowPod with the old one: %w", err)
	}
	return changes, nil
}

// admit adds the policies' changes to an allowed response, or denies the request. The message for
// the consumer names the policy and not its code.
func (p *Policies) admit(ctx context.Context, request *admission.Request, shadow *metav1.PartialObjectMetadata, response admission.Response) admission.Response {
	namespace, denial, err := checkOrigin(ctx, shadow.Labels, request.Namespace, p.Reader, p.APIReader)
	switch {
	case err != nil:
		return admission.Errored(http.StatusInternalServerError, err)
	case denial != "":
		return admission.Denied(denial)
	}
	result, err := p.evaluate(ctx, request, namespace)
	if err == nil && result.Denial == nil {
		err = checkInvariants(result)
	}
	log := ctrl.LoggerFrom(ctx)
	var failure *failedError
	switch {
	case errors.As(err, &failure):
		log.Error(failure.err, "Policies failed, denying the ShadowPod")
		return admission.Denied(failure.message)
	case err != nil:
		return admission.Errored(http.StatusInternalServerError, err)
	}
	for _, warning := range result.Warnings {
		log.Info("Policy warned", "warning", warning)
	}
	audit := view.EncodeDecisions(result.Decisions, view.MaxDecisionsBytes)
	if result.Denial != nil {
		d := result.Denial
		response = admission.Denied(fmt.Sprintf("policy %q of the provider denied the pod: %s: %s", d.Policy, d.Reason, d.Message))
	} else if err := addChanges(&response, result); err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	if audit != "" {
		response.AuditAnnotations = map[string]string{auditKey: audit}
	}
	return response
}

func (p *Policies) evaluate(ctx context.Context, request *admission.Request, namespace *corev1.Namespace) (*view.AdmissionResult, error) {
	in := view.ShadowPodInput{
		Raw: request.Object.Raw, Namespace: namespace,
		Tenant: contract.Tenant{ClusterID: namespace.Labels[liqocorev1beta1.RemoteClusterIDLabel]},
		User:   request.UserInfo.Username, Groups: request.UserInfo.Groups, DryRun: ptr.Deref(request.DryRun, false),
	}
	if p.Quotas != nil {
		found, err := p.Quotas.Find(ctx, quota.LabelValue(request.UserInfo.Username))
		if err != nil {
			return nil, fmt.Errorf("finding the quota: %w", err)
		}
		in.Quota = found
	}
	result, err := view.AdmitShadowPod(ctx, p.Evaluator, in)
	if refused, ok := errors.AsType[*chain.PolicyError](err); ok {
		message := fmt.Sprintf("policy %q of the provider gave no valid answer (%s); %s", refused.Binding, string(refused.Class), whoActs)
		if errors.Is(err, chain.TooLarge) {
			message = fmt.Sprintf("the pod is too large for policy %q of the provider", refused.Binding)
		}
		return nil, &failedError{message: message, err: err}
	}
	if err != nil {
		return nil, fmt.Errorf("evaluating the policies: %w", err)
	}
	return result, nil
}

// failedError is the failure of a policy. The message is for the consumer.
type failedError struct {
	message string
	err     error
}

// Error implements error.
func (e *failedError) Error() string { return e.err.Error() }

// checkInvariants returns a [failedError] if policies made the pod less isolated than the consumer
// asked for.
func checkInvariants(result *view.AdmissionResult) error {
	err := result.Check(invariants.HarmlessField, invariants.CheckAdmission)
	broken, ok := errors.AsType[*invariants.Error](err)
	if !ok {
		return err
	}
	message := fmt.Sprintf("%s of the provider changed what no policy may change (%s); %s", view.ChangedBy(result.Decisions, broken.Causes()), broken, whoActs)
	return &failedError{message: message, err: err}
}

// addChanges adds the policies' changes to the patch of a response.
func addChanges(response *admission.Response, result *view.AdmissionResult) error {
	patch, err := result.JSONPatch(nil)
	if err != nil {
		return fmt.Errorf("encoding the patch of the ShadowPod: %w", err)
	}
	if patch == nil {
		return nil
	}
	changes := response.Patches[:0:0]
	if err := json.Unmarshal(patch, &changes); err != nil {
		return fmt.Errorf("decoding the patch of the ShadowPod: %w", err)
	}
	response.Patches = append(response.Patches, changes...)
	return nil
}

// checkOrigin returns the namespace of a ShadowPod with these labels, or why the ShadowPod does not
// belong into it. A new namespace may not be in the cache, nor its label.
func checkOrigin(ctx context.Context, labels map[string]string, name string, readers ...client.Reader) (namespace *corev1.Namespace, denial string, err error) {
	origin := labels[offloadingv1beta1.OriginLabel]
	if origin == "" {
		return nil, fmt.Sprintf("label %s is missing", offloadingv1beta1.OriginLabel), nil
	}
	for _, reader := range readers {
		namespace := &corev1.Namespace{}
		err := reader.Get(ctx, client.ObjectKey{Name: name}, namespace)
		if client.IgnoreNotFound(err) != nil {
			return nil, "", fmt.Errorf("reading namespace %q: %w", name, err)
		}
		if err == nil && namespace.Labels[liqocorev1beta1.RemoteClusterIDLabel] == origin {
			return namespace, "", nil
		}
	}
	return nil, fmt.Sprintf("namespace %s does not belong to cluster %s, which label %s names", name, origin, offloadingv1beta1.OriginLabel), nil
}
