package tenant

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/provider"
	"github.com/longshore-dev/longshore/host/kit/quantity"
)

// limit keeps the ResourceQuota of a tenant namespace, which ends with the Tenant. It bounds custom resources, and so
// returns how long that would have Kubernetes refuse them all ([namespacemap.CustomCountsAfter]). An administrator's own
// limits stay.
//
// +kubebuilder:rbac:groups="",resources=resourcequotas,verbs=get;list;watch;create;patch
func (r *Reconciler) limit(ctx context.Context, tenant *authv1beta1.Tenant) (time.Duration, error) {
	if len(r.Limits) == 0 {
		return 0, nil
	}
	if left := r.LimitsFrom.Sub(r.Clock.Now()); left > 0 {
		return left, nil
	}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Namespace, Name: provider.QuotaName}}
	if _, err := ctrl.CreateOrPatch(ctx, r.Client, quota, func() error {
		if quota.Annotations[offloadingv1beta1.CustomLimitsAnnotation] == "true" {
			return nil
		}
		metav1.SetMetaDataLabel(&quota.ObjectMeta, liqocorev1beta1.ManagedByLabel, liqocorev1beta1.ManagedByValue)
		if !quantity.Equal(quota.Spec, corev1.ResourceQuotaSpec{Hard: r.Limits}) {
			quota.Spec = corev1.ResourceQuotaSpec{Hard: r.Limits}
		}
		return controllerutil.SetOwnerReference(tenant, quota, r.Client.Scheme())
	}); err != nil {
		return 0, fmt.Errorf("limiting tenant namespace %q: %w", tenant.Namespace, err)
	}
	return 0, nil
}

// limitsChange drops events of what a ResourceQuota counts.
func limitsChange() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, okBefore := e.ObjectOld.(*corev1.ResourceQuota)
		after, okAfter := e.ObjectNew.(*corev1.ResourceQuota)
		return okBefore && okAfter && (!equality.Semantic.DeepEqual(before.Spec, after.Spec) ||
			!maps.Equal(before.Labels, after.Labels) || !maps.Equal(before.Annotations, after.Annotations))
	}}
}
