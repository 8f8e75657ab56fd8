package virtualnode

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
)

// ensureDisruptionBudget creates the PodDisruptionBudget of a virtual kubelet, or deletes it when one
// replica is left. A budget that the Deployment does not own is unmanaged.
//
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;delete
func (p *process) ensureDisruptionBudget(ctx context.Context, deployment *appsv1.Deployment) error {
	desired := virtualkubelet.DisruptionBudget(deployment)
	current := &policyv1.PodDisruptionBudget{}
	err := p.Client.Get(ctx, client.ObjectKeyFromObject(deployment), current)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("reading PodDisruptionBudget %s/%s: %w", deployment.Namespace, deployment.Name, err)
	case apierrors.IsNotFound(err) && desired != nil:
		if err := p.Client.Create(ctx, desired, client.FieldOwner(FieldManager)); client.IgnoreAlreadyExists(err) != nil {
			return fmt.Errorf("creating PodDisruptionBudget %s/%s: %w", desired.Namespace, desired.Name, err)
		}
	case err == nil && desired == nil && metav1.IsControlledBy(current, deployment):
		if err := p.Client.Delete(ctx, current, uidPrecondition(current)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting PodDisruptionBudget %s/%s: %w", current.Namespace, current.Name, err)
		}
	}
	return nil
}
