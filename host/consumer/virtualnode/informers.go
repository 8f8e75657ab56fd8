package virtualnode

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// startInformers starts the informers of the kinds that the reconciler reads and does not watch.
// Without them, the first VirtualNode waits for the list of each kind, one after the other.
func startInformers(ctx context.Context, informers cache.Informers) error {
	for _, kind := range []client.Object{
		&rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}, &corev1.ServiceAccount{},
	} {
		if _, err := informers.GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("starting the informer of %T: %w", kind, err)
		}
	}
	return nil
}
