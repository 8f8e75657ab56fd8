package tenant

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/fair"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

const (
	reasonNotInTenantNamespace = "NotInTenantNamespace"
	actionCreateNonce          = "CreateNonce"
)

// NonceReconciler puts a nonce into each Secret that asks for one.
//
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
type NonceReconciler struct {
	// Client reads Secrets of tenant namespaces from the cache (package tenantsecrets).
	Client client.Client
	// Events records on the Secrets.
	Events events.EventRecorder
}

// SetupWithManager registers the watch on the Secrets.
func (r *NonceReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("nonce").
		For(&corev1.Secret{}, builder.WithPredicates(predicate.NewPredicateFuncs(isNonce))).
		WithOptions(fair.Options(mgr.GetClient(), 1)).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
}

func isNonce(object client.Object) bool {
	_, ok := object.GetLabels()[authentication.NonceLabel]
	return ok
}

// Reconcile writes a nonce into a Secret that has none.
func (r *NonceReconciler) Reconcile(ctx context.Context, secret *corev1.Secret) (ctrl.Result, error) {
	if !isNonce(secret) || !secret.DeletionTimestamp.IsZero() || len(secret.Data[authentication.NonceKey]) > 0 {
		return ctrl.Result{}, nil
	}
	cluster := liqocorev1beta1.ClusterID(secret.Labels[liqocorev1beta1.RemoteClusterIDLabel])
	_, problem, err := authentication.ReadTenantNamespace(ctx, r.Client, secret.Namespace, cluster)
	if err != nil {
		return ctrl.Result{}, err
	}
	if problem != "" {
		r.Events.Eventf(secret, nil, corev1.EventTypeWarning, reasonNotInTenantNamespace, actionCreateNonce, "No nonce is made: %s", problem)
		return ctrl.Result{}, nil
	}
	filled := secret.DeepCopy()
	if filled.Data == nil {
		filled.Data = map[string][]byte{}
	}
	filled.Data[authentication.NonceKey] = authentication.NewNonce()
	if err := r.Client.Update(ctx, filled); err != nil { // With the version that was read: a nonce is never replaced.
		return ctrl.Result{}, fmt.Errorf("writing the nonce of cluster %q: %w", cluster, err)
	}
	return ctrl.Result{}, nil
}
