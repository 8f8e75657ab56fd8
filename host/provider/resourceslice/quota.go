package resourceslice

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// quotaSpec returns the Quota of an accepted slice, or nil if the slice is not accepted: a Quota
// that exists stays as it is then (wire P4.4). It is pure.
func quotaSpec(slice *authv1beta1.ResourceSlice, enforcement offloadingv1beta1.LimitsEnforcement) *offloadingv1beta1.QuotaSpec {
	if !isAccepted(&slice.Status) {
		return nil
	}
	spec := &offloadingv1beta1.QuotaSpec{
		User:              authentication.SliceSubject(ptr.Deref(slice.Spec.ConsumerClusterID, ""), slice.Name).User,
		LimitsEnforcement: enforcement, Resources: slice.Status.Resources,
	}
	if isSet(slice.Annotations, authv1beta1.CordonAnnotation) || isSet(slice.Annotations, authv1beta1.CordonTenantAnnotation) || isUnauthenticated(&slice.Status) {
		spec.Cordoned = ptr.To(true)
	}
	return spec
}

// isSet reports whether an annotation exists and has a value other than false.
func isSet(annotations map[string]string, key string) bool {
	value, ok := annotations[key]
	return ok && value != "false" && value != "False" && value != "0"
}

// isUnauthenticated reports whether the credentials of a slice are denied. Its consumer could send
// an invalid request to keep what the policies would not grant any more.
func isUnauthenticated(status *authv1beta1.ResourceSliceStatus) bool {
	return slices.ContainsFunc(status.Conditions, func(c authv1beta1.ResourceSliceCondition) bool {
		return c.Type == authv1beta1.ResourceSliceConditionTypeAuthentication && c.Status == authv1beta1.ResourceSliceConditionDenied
	})
}

// cordonQuotas cordons the Quotas of a slice that is not granted any more: a policy denies it, it
// is being deleted, or it asks for nothing that can be granted. Pods that run keep their resources.
// The owner identifies the Quotas, since the consumer can change the fields that name their user.
func (r *Reconciler) cordonQuotas(ctx context.Context, slice *authv1beta1.ResourceSlice) error {
	quotas := &offloadingv1beta1.QuotaList{}
	if err := r.Client.List(ctx, quotas, client.InNamespace(slice.Namespace)); err != nil {
		return fmt.Errorf("listing the Quotas of namespace %q: %w", slice.Namespace, err)
	}
	for i := range quotas.Items {
		quota := &quotas.Items[i]
		if !metav1.IsControlledBy(quota, slice) || ptr.Deref(quota.Spec.Cordoned, false) {
			continue
		}
		quota.Spec.Cordoned = ptr.To(true)
		if err := r.Client.Update(ctx, quota); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("cordoning Quota %s/%s: %w", quota.Namespace, quota.Name, err)
		}
	}
	return nil
}

// ensureQuota keeps the Quota of a slice, which has the name of its user.
//
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=quotas,verbs=get;list;watch;create;update
func (r *Reconciler) ensureQuota(ctx context.Context, slice *authv1beta1.ResourceSlice) error {
	spec := quotaSpec(slice, r.LimitsEnforcement)
	if spec == nil {
		return nil
	}
	quota := &offloadingv1beta1.Quota{ObjectMeta: metav1.ObjectMeta{Name: spec.User, Namespace: slice.Namespace}}
	if _, err := ctrl.CreateOrUpdate(ctx, r.Client, quota, func() error {
		// An equal list stays as it is, since quantities have several forms.
		if !equality.Semantic.DeepEqual(quota.Spec, *spec) {
			quota.Spec = *spec
		}
		if err := controllerutil.SetControllerReference(slice, quota, r.Client.Scheme(), controllerutil.WithBlockOwnerDeletion(false)); err != nil {
			return fmt.Errorf("setting the owner of Quota %q: %w", quota.Name, err)
		}
		return nil
	}); err != nil {
		return fmt.Errorf("writing Quota %s/%s: %w", quota.Namespace, quota.Name, err)
	}
	return nil
}
