package virtualnode

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
)

// ensureNetworkPolicy creates and updates the NetworkPolicy of a virtual kubelet, or deletes it if
// there are to be none. A policy that the Deployment does not own is unmanaged. The manager has the
// rights in tenant namespaces only (package tenantnamespace), so that it cannot watch the policies: it
// looks at one again when its Deployment has changed, and after its own start.
func (p *process) ensureNetworkPolicy(ctx context.Context, deployment *appsv1.Deployment) error {
	if generation, ok := p.networkPolicies.Load(deployment.UID); ok && generation == deployment.Generation {
		return nil
	}
	current := &networkingv1.NetworkPolicy{}
	err := p.APIReader.Get(ctx, client.ObjectKeyFromObject(deployment), current)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading NetworkPolicy %s/%s: %w", deployment.Namespace, deployment.Name, err)
	}
	if err := p.writeNetworkPolicy(ctx, deployment, current, err == nil); err != nil {
		return err
	}
	p.networkPolicies.Store(deployment.UID, deployment.Generation)
	return nil
}

func (p *process) writeNetworkPolicy(ctx context.Context, deployment *appsv1.Deployment, current *networkingv1.NetworkPolicy, exists bool) error {
	isOurs := exists && metav1.IsControlledBy(current, deployment)
	if p.NetworkAccess == nil {
		if !isOurs {
			return nil
		}
		if err := p.Client.Delete(ctx, current, uidPrecondition(current)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting NetworkPolicy %s/%s: %w", current.Namespace, current.Name, err)
		}
		return nil
	}
	desired := virtualkubelet.NetworkPolicy(deployment, p.NetworkAccess)
	switch {
	case !exists:
		if err := p.Client.Create(ctx, desired, client.FieldOwner(FieldManager)); client.IgnoreAlreadyExists(err) != nil {
			return fmt.Errorf("creating NetworkPolicy %s/%s: %w", desired.Namespace, desired.Name, err)
		}
	case isOurs && !equality.Semantic.DeepEqual(current.Spec, desired.Spec):
		updated := current.DeepCopy()
		updated.Spec = desired.Spec
		if err := p.Client.Patch(ctx, updated, client.MergeFrom(current), client.FieldOwner(FieldManager)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("patching NetworkPolicy %s/%s: %w", desired.Namespace, desired.Name, err)
		}
	}
	return nil
}
