package network

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	ipamv1alpha1 "github.com/longshore-dev/longshore/host/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/longshore-dev/longshore/host/apis/networking/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/retry"
)

// APIServerIPName is the name of the IP of the API server.
const APIServerIPName = "api-server"

// APIServer keeps the IP of the API server, which remote pods reach by its address.
type APIServer struct {
	// Client reads from the manager's cache.
	Client client.Client
	// APIReader reads the Service of the API server.
	APIReader client.Reader
	// Namespace has the IP.
	Namespace string
}

// SetupWithManager watches the IP, and the Network of its address.
//
// +kubebuilder:rbac:groups=ipam.liqo.io,resources=ips,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=services,resourceNames=kubernetes,verbs=get
func (r *APIServer) SetupWithManager(mgr ctrl.Manager) error {
	key := client.ObjectKey{Namespace: r.Namespace, Name: APIServerIPName}
	enqueue := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: key}}
	})
	isIP := predicate.NewPredicateFuncs(func(object client.Object) bool { return client.ObjectKeyFromObject(object) == key })
	isExternal := predicate.NewPredicateFuncs(func(object client.Object) bool {
		return object.GetNamespace() == r.Namespace && object.GetLabels()[ipamv1alpha1.NetworkTypeLabel] == string(ipamv1alpha1.ExternalCIDRNetwork)
	})
	return ctrl.NewControllerManagedBy(mgr).Named("ip-api-server").
		Watches(&ipamv1alpha1.IP{}, enqueue, builder.WithPredicates(isIP)).
		Watches(&ipamv1alpha1.Network{}, enqueue, builder.WithPredicates(isExternal)).
		WithOptions(controller.Options{RateLimiter: retry.Limiter[reconcile.Request]()}).
		Complete(r)
}

// Reconcile creates the IP, and replaces it when the API server has another address.
func (r *APIServer) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	service := &corev1.Service{}
	if err := r.APIReader.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "kubernetes"}, service); err != nil {
		return ctrl.Result{}, fmt.Errorf("reading Service default/kubernetes: %w", err)
	}
	address := networkingv1beta1.IP(service.Spec.ClusterIP)
	current := &ipamv1alpha1.IP{}
	err := r.Client.Get(ctx, request.NamespacedName, current)
	switch {
	case err == nil && (current.Spec.IP == address || !current.DeletionTimestamp.IsZero()):
		return ctrl.Result{}, nil
	case err == nil: // spec.ip is immutable; the deletion causes a creation
		if err := r.Client.Delete(ctx, current, client.Preconditions{UID: &current.UID}); client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, fmt.Errorf("deleting IP %s: %w", request, err)
		}
		return ctrl.Result{}, nil
	case !apierrors.IsNotFound(err):
		return ctrl.Result{}, fmt.Errorf("reading IP %s: %w", request, err)
	}
	err = r.Client.Create(ctx, &ipamv1alpha1.IP{
		ObjectMeta: metav1.ObjectMeta{
			Name: request.Name, Namespace: request.Namespace,
			Labels:      map[string]string{ipamv1alpha1.IPTypeLabel: string(ipamv1alpha1.APIServerIP)},
			Annotations: map[string]string{ipamv1alpha1.PreinstalledAnnotation: labelTrue},
		},
		Spec: ipamv1alpha1.IPSpec{IP: address},
	})
	if client.IgnoreAlreadyExists(err) != nil {
		return ctrl.Result{}, fmt.Errorf("creating IP %s: %w", request, err)
	}
	return ctrl.Result{}, nil
}
