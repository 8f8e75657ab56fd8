package virtualnode

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// forgeDisruptionBudget builds the PodDisruptionBudget of a virtual kubelet with several replicas: a
// drain evicts one replica at a time. It returns nil for one replica, whose eviction a budget would
// prevent or not affect.
func forgeDisruptionBudget(deployment *appsv1.Deployment) *policyv1.PodDisruptionBudget {
	if ptr.Deref(deployment.Spec.Replicas, 1) < 2 {
		return nil
	}
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{
			Name: deployment.Name, Namespace: deployment.Namespace, Labels: deployment.Labels,
			// The garbage collector deletes it with the Deployment.
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(deployment, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
		},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable:             ptr.To(intstr.FromInt32(1)),
			UnhealthyPodEvictionPolicy: ptr.To(policyv1.AlwaysAllow),
			Selector:                   deployment.Spec.Selector,
		},
	}
}

// ensureDisruptionBudget creates the PodDisruptionBudget of a virtual kubelet, or deletes it when one
// replica is left. A budget that the Deployment does not own is unmanaged.
//
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;delete
func (r *Reconciler) ensureDisruptionBudget(ctx context.Context, deployment *appsv1.Deployment) error {
	desired := forgeDisruptionBudget(deployment)
	current := &policyv1.PodDisruptionBudget{}
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(deployment), current)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("reading PodDisruptionBudget %s/%s: %w", deployment.Namespace, deployment.Name, err)
	case apierrors.IsNotFound(err) && desired != nil:
		if err := r.Client.Create(ctx, desired, client.FieldOwner(FieldManager)); client.IgnoreAlreadyExists(err) != nil {
			return fmt.Errorf("creating PodDisruptionBudget %s/%s: %w", desired.Namespace, desired.Name, err)
		}
	case err == nil && desired == nil && metav1.IsControlledBy(current, deployment):
		if err := r.Client.Delete(ctx, current, uidPrecondition(current)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting PodDisruptionBudget %s/%s: %w", current.Namespace, current.Name, err)
		}
	}
	return nil
}
