package resourceslice

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/view"
	"github.com/longshore-dev/longshore/host/provider/quota"
	"github.com/longshore-dev/longshore/sdk/contract"
)

const (
	// policyRetry is how soon a slice is decided again about which a policy failed.
	policyRetry = 30 * time.Second

	reasonNotGranted = "ResourcesNotGranted"
	// reasonEarlierPods is the reason of the event of a grant of which pods of the consumer's earlier slices take a part.
	reasonEarlierPods = "EarlierPodsHoldResources"
	actionGrant       = "Grant"
)

// decide grants resources. A slice without credentials gets none: what is denied must not look
// accepted (Q3). The delay is how soon the slice is to be decided again; zero for never.
func (r *Reconciler) decide(ctx context.Context, slice *authv1beta1.ResourceSlice, tenant *authv1beta1.Tenant, namespace *corev1.Namespace, abandoned corev1.ResourceList) (time.Duration, error) {
	if slice.Status.AuthParams == nil && tenant.Spec.TenantCondition != authv1beta1.TenantConditionDrained {
		return 0, nil
	}
	now := metav1.NewTime(r.Clock.Now())
	if !asksPolicies(slice, tenant.Spec.TenantCondition, &r.Offer, now) {
		return 0, nil
	}
	decided, err := r.evaluate(ctx, slice, namespace)
	if errors.Is(err, chain.ErrNotLoaded) {
		return policyRetry, nil // The end of the load enqueues the slice.
	}
	if err != nil {
		return 0, err
	}
	decided.hasAbandoned = len(quota.Within(decided.granted, abandoned)) > 0
	storage := &storagev1.StorageClassList{}
	if err := r.Client.List(ctx, storage); err != nil {
		return 0, fmt.Errorf("listing StorageClasses: %w", err)
	}
	apply(slice, decided, &r.Offer, storage.Items, now)
	if decided.failure != "" {
		return policyRetry, nil
	}
	return 0, nil
}

// evaluate returns what the policies decide about a slice.
func (r *Reconciler) evaluate(ctx context.Context, slice *authv1beta1.ResourceSlice, namespace *corev1.Namespace) (*decision, error) {
	result, err := view.AdmitResourceSlice(ctx, r.Policies, view.ResourceSliceInput{
		Slice: slice, Tenant: contract.Tenant{ClusterID: namespace.Labels[liqocorev1beta1.RemoteClusterIDLabel]},
		Namespace: namespace, Defaults: r.Offer.Defaults,
	})
	if failed, ok := errors.AsType[*chain.PolicyError](err); ok {
		if failed.Class == chain.TooLarge {
			// The consumer decides how large its slice is: it could keep what the policy would not grant.
			return &decision{denial: fmt.Sprintf("The slice is too large for policy %q of the provider. Its consumer must make it smaller.", failed.Binding)}, nil
		}
		ctrl.LoggerFrom(ctx).Error(err, "Policies failed, not granting resources")
		return &decision{failure: fmt.Sprintf("policy %q of the provider gave no valid answer (%s), and an administrator of the provider must correct it", failed.Binding, string(failed.Class))}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("evaluating the policies: %w", err)
	}
	for _, warning := range result.Warnings {
		ctrl.LoggerFrom(ctx).Info("Policy warned", "warning", warning)
	}
	if d := result.Denial; d != nil {
		return &decision{denial: fmt.Sprintf("Policy %q of the provider denied the resources: %s: %s", d.Policy, d.Reason, d.Message)}, nil
	}
	return &decision{granted: result.Granted}, nil
}

// recordDecision records an event for a condition that has changed and whose message is not that
// of a grant.
func (r *Reconciler) recordDecision(slice, before *authv1beta1.ResourceSlice) {
	was, is := resourcesCondition(&before.Status), resourcesCondition(&slice.Status)
	if is == nil || is.Message == grantedMessage || was != nil && was.Status == is.Status && was.Message == is.Message {
		return
	}
	reason := reasonNotGranted
	if is.Message == abandonedMessage {
		reason = reasonEarlierPods
	}
	r.Events.Eventf(slice, nil, corev1.EventTypeWarning, reason, actionGrant, "%s", is.Message)
}

func resourcesCondition(status *authv1beta1.ResourceSliceStatus) *authv1beta1.ResourceSliceCondition {
	for i := range status.Conditions {
		if status.Conditions[i].Type == authv1beta1.ResourceSliceConditionTypeResources {
			return &status.Conditions[i]
		}
	}
	return nil
}
