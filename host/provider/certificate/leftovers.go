package certificate

import (
	"context"
	"fmt"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/fair"
)

// Leftovers deletes the CertificateSigningRequests of Tenants and ResourceSlices that are gone. Requests
// are objects of the cluster, so that no owner in a namespace takes them along.
type Leftovers struct {
	// Client reads from the cache.
	Client client.Client
}

// SetupWithManager registers watches on the requests, and on the ends of what they are for.
func (l *Leftovers) SetupWithManager(mgr ctrl.Manager) error {
	isMade := predicate.NewPredicateFuncs(func(object client.Object) bool {
		_, ok := identityOf(object)
		return ok
	})
	ends := builder.WithPredicates(predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			slice, ok := e.ObjectNew.(*authv1beta1.ResourceSlice)
			return !e.ObjectNew.GetDeletionTimestamp().IsZero() || ok && len(slice.Spec.CSR) == 0
		},
	})
	ofNamespace := handler.EnqueueRequestsFromMapFunc(l.requestsOfNamespace)
	err := ctrl.NewControllerManagedBy(mgr).Named("certificate-leftovers").
		For(&certificatesv1.CertificateSigningRequest{}, builder.WithPredicates(isMade)).
		Watches(&authv1beta1.ResourceSlice{}, ofNamespace, ends).
		Watches(&authv1beta1.Tenant{}, ofNamespace, ends).
		WithOptions(fair.Options(mgr.GetClient(), 1)).
		Complete(reconcile.AsReconciler(mgr.GetClient(), l))
	if err != nil {
		return fmt.Errorf("adding the controller of leftover certificate requests: %w", err)
	}
	return nil
}

func (l *Leftovers) requestsOfNamespace(ctx context.Context, object client.Object) []reconcile.Request {
	list := &certificatesv1.CertificateSigningRequestList{}
	if err := l.Client.List(ctx, list, client.MatchingLabels{RequestLabel: "true"}); err != nil {
		// Listing from the cache fails only while the manager stops.
		ctrl.LoggerFrom(ctx).Error(err, "Listing CertificateSigningRequests failed")
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if identity, ok := identityOf(&list.Items[i]); ok && strings.HasPrefix(identity, object.GetNamespace()+"/") {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}

// Reconcile deletes a request if what it is for does not need it any more.
func (l *Leftovers) Reconcile(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) (ctrl.Result, error) {
	identity, ok := identityOf(csr)
	if !ok {
		return ctrl.Result{}, nil
	}
	namespace, slice, _ := strings.Cut(identity, "/")
	isNeeded, err := l.isNeeded(ctx, client.ObjectKey{Namespace: namespace, Name: slice})
	if err != nil || isNeeded {
		return ctrl.Result{}, err
	}
	if err := l.Client.Delete(ctx, csr); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("deleting CertificateSigningRequest %q, which nothing needs any more: %w", csr.Name, err)
	}
	return ctrl.Result{}, nil
}

func (l *Leftovers) isNeeded(ctx context.Context, identity client.ObjectKey) (bool, error) {
	if identity.Name != "" {
		slice := &authv1beta1.ResourceSlice{}
		err := l.Client.Get(ctx, identity, slice)
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("reading ResourceSlice %s: %w", identity, err)
		}
		return err == nil && slice.DeletionTimestamp.IsZero() && len(slice.Spec.CSR) > 0, nil
	}
	tenants := &authv1beta1.TenantList{}
	if err := l.Client.List(ctx, tenants, client.InNamespace(identity.Namespace)); err != nil {
		return false, fmt.Errorf("listing the Tenants of namespace %q: %w", identity.Namespace, err)
	}
	for i := range tenants.Items {
		if tenants.Items[i].DeletionTimestamp.IsZero() {
			return true, nil
		}
	}
	return false, nil
}
