package resourceslice

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/quantity"
	"github.com/longshore-dev/longshore/host/peering/authentication"
	counting "github.com/longshore-dev/longshore/host/provider/quota"
)

// quotaSpec returns the Quota of an accepted slice. It follows the Tenant itself, too: its
// slices get their annotation later. It is pure.
func quotaSpec(slice *authv1beta1.ResourceSlice, condition authv1beta1.TenantCondition, enforcement offloadingv1beta1.LimitsEnforcement) *offloadingv1beta1.QuotaSpec {
	spec := &offloadingv1beta1.QuotaSpec{
		User: userOf(slice), LimitsEnforcement: enforcement, Resources: slice.Status.Resources,
	}
	if condition == authv1beta1.TenantConditionCordoned || isUnauthenticated(&slice.Status) ||
		authentication.IsCordonedBy(slice, authv1beta1.CordonAnnotation) || authentication.IsCordonedBy(slice, authv1beta1.CordonTenantAnnotation) {
		spec.Cordoned = ptr.To(true)
	}
	return spec
}

// userOf returns the user whose pods the Quota of a slice counts.
func userOf(slice *authv1beta1.ResourceSlice) string {
	return authentication.SliceSubject(ptr.Deref(slice.Spec.ConsumerClusterID, ""), slice.Name).User
}

// isUnauthenticated reports whether the credentials of a slice are denied. Its consumer could send
// an invalid request to keep what the policies would not grant any more.
func isUnauthenticated(status *authv1beta1.ResourceSliceStatus) bool {
	return slices.ContainsFunc(status.Conditions, func(c authv1beta1.ResourceSliceCondition) bool {
		return c.Type == authv1beta1.ResourceSliceConditionTypeAuthentication && c.Status == authv1beta1.ResourceSliceConditionDenied
	})
}

// keepQuota brings the Quota of a slice in line with the slice and with its Tenant.
func (r *Reconciler) keepQuota(ctx context.Context, slice *authv1beta1.ResourceSlice, condition authv1beta1.TenantCondition, abandoned corev1.ResourceList) error {
	// Another controller may have granted what its consumer asks for.
	if !isAccepted(&slice.Status) || quantity.CheckList(slice.Status.Resources) != nil {
		return r.cordonQuotas(ctx, slice)
	}
	return r.ensureQuota(ctx, slice, quotaSpec(slice, condition, r.LimitsEnforcement), counting.Within(slice.Status.Resources, abandoned))
}

// ownQuotas returns the Quotas of a slice. The owner identifies them, since the consumer can change the
// fields that name their user.
func (r *Reconciler) ownQuotas(ctx context.Context, slice *authv1beta1.ResourceSlice) ([]offloadingv1beta1.Quota, error) {
	quotas := &offloadingv1beta1.QuotaList{}
	if err := r.Client.List(ctx, quotas, client.InNamespace(slice.Namespace)); err != nil {
		return nil, fmt.Errorf("listing the Quotas of namespace %q: %w", slice.Namespace, err)
	}
	return slices.DeleteFunc(quotas.Items, func(quota offloadingv1beta1.Quota) bool { return !metav1.IsControlledBy(&quota, slice) }), nil
}

// cordonQuotas cordons the Quotas of a slice that is not granted any more: it is denied, it is being
// deleted, or it asks for nothing that can be granted. Pods that run keep their resources.
func (r *Reconciler) cordonQuotas(ctx context.Context, slice *authv1beta1.ResourceSlice) error {
	quotas, err := r.ownQuotas(ctx, slice)
	if err != nil {
		return err
	}
	for i := range quotas {
		if err := r.updateQuota(ctx, &quotas[i], func(quota *offloadingv1beta1.Quota) { quota.Spec.Cordoned = ptr.To(true) }); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reconciler) updateQuota(ctx context.Context, quota *offloadingv1beta1.Quota, change func(*offloadingv1beta1.Quota)) error {
	before := quota.DeepCopy()
	change(quota)
	return r.writeQuota(ctx, before, quota)
}

// writeQuota writes a Quota that has changed.
func (r *Reconciler) writeQuota(ctx context.Context, before, quota *offloadingv1beta1.Quota) error {
	if quantity.Equal(before, quota) {
		return nil
	}
	if err := r.Client.Update(ctx, quota); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing Quota %s/%s: %w", quota.Namespace, quota.Name, err)
	}
	return nil
}

// leaveClass takes back what was granted to a slice of another class. The consumer chooses the class,
// and could choose one about which no controller decides. The Quota has the class that granted it. Its
// new class is recorded when the slice is denied, so that what is accepted later is of that class.
func (r *Reconciler) leaveClass(ctx context.Context, slice *authv1beta1.ResourceSlice) error {
	quotas, err := r.ownQuotas(ctx, slice)
	if err != nil {
		return err
	}
	class := classOf(slice)
	for i := range quotas {
		granted, isRecorded := quotas[i].Annotations[offloadingv1beta1.QuotaClassAnnotation]
		if !isRecorded || granted == class {
			continue
		}
		if isAccepted(&slice.Status) {
			before := slice.DeepCopy()
			deny(&slice.Status, reasonResourcesDenied, fmt.Sprintf("The class changed from %s to %s, and what class %[1]s granted is taken back. "+
				"A controller of the provider for class %[2]s grants resources, or the consumer sets class %[1]s again.", granted, class), metav1.NewTime(r.Clock.Now()))
			if err := r.writeStatus(ctx, slice, before); err != nil {
				return err
			}
			r.recordDecision(slice, before)
		}
		if err := r.updateQuota(ctx, &quotas[i], func(quota *offloadingv1beta1.Quota) {
			quota.Spec.Cordoned, quota.Annotations[offloadingv1beta1.QuotaClassAnnotation] = ptr.To(true), class
		}); err != nil {
			return err
		}
	}
	return nil
}

// ensureQuota keeps the Quota of an accepted slice, which has the name of its user. The Quota counts what the consumer's
// abandoned pods hold before it grants anything, and what pods hold that an earlier slice of its name left: a new one is
// cordoned until then.
//
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=quotas,verbs=get;list;watch;create;update
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=quotas/status,verbs=patch
func (r *Reconciler) ensureQuota(ctx context.Context, slice *authv1beta1.ResourceSlice, spec *offloadingv1beta1.QuotaSpec, abandoned corev1.ResourceList) error {
	quota := &offloadingv1beta1.Quota{ObjectMeta: metav1.ObjectMeta{Name: spec.User, Namespace: slice.Namespace}}
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(quota), quota)
	ending := quota.Status.Ending
	if apierrors.IsNotFound(err) || err == nil && ptr.Deref(quota.Spec.Cordoned, false) {
		left, err := counting.Ending(ctx, r.Client, spec.User)
		if err != nil {
			return fmt.Errorf("counting what an earlier slice left: %w", err)
		}
		ending = counting.Within(spec.Resources, left)
	}
	if apierrors.IsNotFound(err) {
		held := *spec
		if len(abandoned) > 0 || len(ending) > 0 {
			held.Cordoned = ptr.To(true)
		}
		if err = r.shape(quota, slice, &held); err == nil {
			err = r.Client.Create(ctx, quota)
		}
	}
	if err != nil {
		return fmt.Errorf("reading or creating Quota %s/%s: %w", quota.Namespace, quota.Name, err)
	}
	if before := quota.DeepCopy(); !quantity.Equal(before.Status.Abandoned, abandoned) || !quantity.Equal(before.Status.Ending, ending) {
		quota.Status.Abandoned, quota.Status.Ending = abandoned, ending
		if err := r.Client.Status().Patch(ctx, quota, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("writing the status of Quota %s/%s: %w", quota.Namespace, quota.Name, err)
		}
	}
	before := quota.DeepCopy()
	return errors.Join(r.shape(quota, slice, spec), r.writeQuota(ctx, before, quota))
}

// shape gives a Quota the content of one of a slice.
func (r *Reconciler) shape(quota *offloadingv1beta1.Quota, slice *authv1beta1.ResourceSlice, spec *offloadingv1beta1.QuotaSpec) error {
	if err := controllerutil.SetControllerReference(slice, quota, r.Client.Scheme(), controllerutil.WithBlockOwnerDeletion(false)); err != nil {
		return fmt.Errorf("setting the owner of Quota %q: %w", quota.Name, err)
	}
	// An equal list stays as it is, since quantities have several forms.
	if !quantity.Equal(quota.Spec, *spec) {
		quota.Spec = *spec
	}
	metav1.SetMetaDataAnnotation(&quota.ObjectMeta, offloadingv1beta1.QuotaClassAnnotation, classOf(slice))
	return nil
}
