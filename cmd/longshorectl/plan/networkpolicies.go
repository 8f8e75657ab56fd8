package plan

import (
	"context"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// readNetworkPolicies reads the NetworkPolicies of a namespace. Those that the user may not read are not warned of.
func (l *Live) readNetworkPolicies(ctx context.Context, f *facts, namespace string) error {
	err := each(ctx, l, &networkingv1.NetworkPolicyList{}, func(list *networkingv1.NetworkPolicyList) {
		for i := range list.Items {
			f.Inventory.AddNetworkPolicy(&list.Items[i])
		}
	}, client.InNamespace(namespace))
	if apierrors.IsForbidden(err) {
		return nil
	}
	return err
}
