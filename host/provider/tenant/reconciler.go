// Package tenant keeps the consumers of a provider: it makes nonces, verifies handshakes,
// issues control-plane credentials, binds roles, and takes all of that back.
package tenant

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/fair"
	"github.com/longshore-dev/longshore/host/kit/retry"
	"github.com/longshore-dev/longshore/host/peering/authentication"
	"github.com/longshore-dev/longshore/host/provider/certificate"
)

const actionAuthenticate = "Authenticate"

// Reconciler keeps Tenants.
//
// +kubebuilder:rbac:groups=authentication.liqo.io,resources=tenants,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=authentication.liqo.io,resources=tenants/status;renews/status,verbs=patch
// +kubebuilder:rbac:groups=authentication.liqo.io,resources=renews,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=authentication.liqo.io,resources=resourceslices,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=namespacemaps,verbs=list;watch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=rolebindings;clusterrolebindings,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=rolebindings,verbs=patch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,resourceNames=liqo-remote-controlplane;liqo-virtual-kubelet-remote-clusterwide,verbs=bind
type Reconciler struct {
	Client client.Client
	// Events records on Tenants.
	Events   events.EventRecorder
	Clock    clock.PassiveClock
	Issuer   *certificate.Issuer
	Endpoint *certificate.Endpoint
	// Limits are those of the ResourceQuota of each tenant namespace. Without them there is none.
	Limits corev1.ResourceList
	// LimitsFrom is when it can be created.
	LimitsFrom time.Time
}

// SetupWithManager registers watches on Tenants and on what their state depends on.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	ofNamespace, ofCluster := handler.EnqueueRequestsFromMapFunc(r.tenantsOfNamespace), handler.EnqueueRequestsFromMapFunc(r.tenantsOfCluster)
	loses := predicate.Funcs{CreateFunc: func(event.CreateEvent) bool { return false }}
	arrives := predicate.Funcs{DeleteFunc: func(event.DeleteEvent) bool { return false }}
	hasLabel := func(label string) builder.WatchesOption {
		return builder.WithPredicates(predicate.NewPredicateFuncs(func(object client.Object) bool {
			_, ok := object.GetLabels()[label]
			return ok
		}))
	}
	ofConsumer := builder.WithPredicates(predicate.NewPredicateFuncs(func(object client.Object) bool { return !liqocorev1beta1.IsOwn(object) }))
	return ctrl.NewControllerManagedBy(mgr).Named("tenant").
		For(&authv1beta1.Tenant{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&rbacv1.RoleBinding{}).
		Watches(&rbacv1.ClusterRoleBinding{}, ofCluster, hasLabel(liqocorev1beta1.RemoteClusterIDLabel), builder.WithPredicates(loses)).
		Watches(&flowcontrolv1.FlowSchema{}, ofCluster, hasLabel(liqocorev1beta1.RemoteClusterIDLabel), builder.WithPredicates(loses)).
		Watches(&flowcontrolv1.PriorityLevelConfiguration{}, ofCluster, hasLabel(liqocorev1beta1.RemoteClusterIDLabel), builder.WithPredicates(loses)).
		Watches(&corev1.Secret{}, ofNamespace, hasLabel(authentication.NonceLabel)).
		Watches(&corev1.ResourceQuota{}, ofNamespace, builder.WithPredicates(limitsChange())).
		Watches(&authv1beta1.Renew{}, ofNamespace, ofConsumer).
		// Slices and maps that arrive after a cordon or a drain are treated like those before it. A slice
		// whose annotations change is compared again: the cache may have been stale when a cordon ended.
		Watches(&authv1beta1.ResourceSlice{}, ofNamespace, ofConsumer, builder.WithPredicates(arrives, predicate.AnnotationChangedPredicate{})).
		Watches(&offloadingv1beta1.NamespaceMap{}, ofNamespace, ofConsumer, builder.WithPredicates(arrives, predicate.AnnotationChangedPredicate{})).
		Watches(&certificatesv1.CertificateSigningRequest{}, ofCluster, hasLabel(certificate.RequestLabel)).
		WithOptions(fair.Options(mgr.GetClient(), 1)).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
}

func (r *Reconciler) tenantsOfNamespace(ctx context.Context, object client.Object) []reconcile.Request {
	return r.requests(ctx, client.InNamespace(object.GetNamespace()))
}

func (r *Reconciler) tenantsOfCluster(ctx context.Context, object client.Object) []reconcile.Request {
	return r.requests(ctx, client.MatchingLabels{
		liqocorev1beta1.RemoteClusterIDLabel: object.GetLabels()[liqocorev1beta1.RemoteClusterIDLabel],
	})
}

func (r *Reconciler) requests(ctx context.Context, options ...client.ListOption) []reconcile.Request {
	tenants := &authv1beta1.TenantList{}
	if err := r.Client.List(ctx, tenants, options...); err != nil {
		// Listing from the cache fails only while the manager stops.
		ctrl.LoggerFrom(ctx).Error(err, "Listing Tenants failed")
	}
	requests := make([]reconcile.Request, 0, len(tenants.Items))
	for i := range tenants.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&tenants.Items[i])})
	}
	return requests
}

// Reconcile brings one Tenant's credentials and rights in line with its spec.
func (r *Reconciler) Reconcile(ctx context.Context, tenant *authv1beta1.Tenant) (ctrl.Result, error) {
	if !tenant.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.withdraw(ctx, tenant)
	}
	_, problem, err := authentication.ReadTenantNamespace(ctx, r.Client, tenant.Namespace, tenant.Spec.ClusterID)
	if err != nil {
		return ctrl.Result{}, err
	}
	if problem != "" {
		// The namespace may get its labels; no event tells.
		return ctrl.Result{RequeueAfter: retry.Max}, r.refuse(ctx, tenant, &refusal{reasonNotInTenantNamespace, problem})
	}
	if err := r.prepare(ctx, tenant); err != nil {
		return ctrl.Result{}, err
	}
	limitAfter, notLimited := r.limit(ctx, tenant)
	result, err := r.decide(ctx, tenant)
	if limitAfter > 0 && (result.RequeueAfter == 0 || limitAfter < result.RequeueAfter) {
		result.RequeueAfter = limitAfter
	}
	return result, errors.Join(notLimited, err)
}

// decide gives the consumer its credentials and rights, or takes them.
func (r *Reconciler) decide(ctx context.Context, tenant *authv1beta1.Tenant) (ctrl.Result, error) {
	if tenant.Spec.TenantCondition == authv1beta1.TenantConditionDrained {
		return ctrl.Result{}, r.drain(ctx, tenant)
	}
	if err := r.cordon(ctx, tenant); err != nil {
		return ctrl.Result{}, err
	}
	refused, err := r.checkID(ctx, tenant)
	if err != nil {
		return ctrl.Result{}, err
	}
	if refused != nil {
		// The binding may be deleted; no event tells.
		return ctrl.Result{RequeueAfter: retry.Max}, r.refuse(ctx, tenant, refused)
	}
	if toleratesNoHandshake(tenant) {
		if err := errors.Join(r.isolate(ctx, tenant), r.bindVirtualKubelets(ctx, tenant)); err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{}, r.accept(ctx, tenant, nil, reasonTolerated, "The administrator waived the handshake; no credentials are issued.")
	}
	return r.authenticate(ctx, tenant)
}

// authenticate verifies the handshake, issues the credentials and binds the roles. A Tenant
// that fails the handshake later keeps what it has: an administrator drains or deletes it.
func (r *Reconciler) authenticate(ctx context.Context, tenant *authv1beta1.Tenant) (ctrl.Result, error) {
	nonce, err := r.nonce(ctx, tenant.Namespace)
	if err != nil {
		return ctrl.Result{}, err
	}
	if refused := verify(tenant, nonce); refused != nil {
		return ctrl.Result{}, r.refuse(ctx, tenant, refused)
	}
	issued, err := r.Issuer.Issue(ctx, certificate.Request{Namespace: tenant.Namespace, Consumer: tenant.Spec.ClusterID, CSR: tenant.Spec.CSR, Owner: tenant})
	switch {
	case errors.Is(err, certificate.ErrRefused):
		return ctrl.Result{}, r.refuse(ctx, tenant, &refusal{reasonRefused, err.Error()})
	case err != nil:
		return ctrl.Result{}, err
	case issued == nil:
		return ctrl.Result{}, r.refuse(ctx, tenant, &refusal{reasonPending, "The certificate request is approved, and kube-controller-manager signs it within seconds. " +
			"A cluster where it does not, such as EKS, cannot be a provider."})
	}
	params, err := r.Endpoint.AuthParams(ctx, issued.PEM, tenant.Spec.ProxyURL)
	if errors.Is(err, certificate.ErrNoEndpoint) {
		return ctrl.Result{}, errors.Join(r.refuse(ctx, tenant, &refusal{reasonNoAddress, err.Error()}), err)
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := errors.Join(r.isolate(ctx, tenant), r.bindControlPlane(ctx, tenant), r.bindVirtualKubelets(ctx, tenant)); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.accept(ctx, tenant, params, reasonReady, "The consumer has its credentials and its rights in the tenant namespace."); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.renew(ctx, tenant, params); err != nil {
		return ctrl.Result{}, err
	}
	// Until the renewal; while one is pending, its request enqueues the Tenant.
	return ctrl.Result{RequeueAfter: max(issued.RenewAt.Sub(r.Clock.Now()), retry.Max)}, nil
}

func (r *Reconciler) nonce(ctx context.Context, namespace string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: authentication.NonceSecretName}, secret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s/%s: %w", namespace, authentication.NonceSecretName, err)
	}
	return secret, nil
}

// prepare sets the finalizer and the label by which other controllers find a Tenant.
func (r *Reconciler) prepare(ctx context.Context, tenant *authv1beta1.Tenant) error {
	before := tenant.DeepCopy()
	changed := controllerutil.AddFinalizer(tenant, authv1beta1.TenantFinalizer)
	if cluster := string(tenant.Spec.ClusterID); tenant.Labels[liqocorev1beta1.RemoteClusterIDLabel] != cluster {
		metav1.SetMetaDataLabel(&tenant.ObjectMeta, liqocorev1beta1.RemoteClusterIDLabel, cluster)
		changed = true
	}
	if !changed {
		return nil
	}
	if err := r.Client.Patch(ctx, tenant, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("patching the metadata of Tenant %q: %w", tenant.Name, err)
	}
	return nil
}

// withdraw takes back what a consumer has: its rights, slices, Renews and mappings, and with the mappings
// the offloaded namespaces. Certificates cannot be revoked; without bindings they give no rights.
func (r *Reconciler) withdraw(ctx context.Context, tenant *authv1beta1.Tenant) error {
	if !controllerutil.ContainsFinalizer(tenant, authv1beta1.TenantFinalizer) {
		return nil
	}
	isDuplicate, err := r.isDuplicate(ctx, tenant)
	if err != nil {
		return err
	}
	if !isDuplicate {
		if err := r.takeBack(ctx, tenant); err != nil {
			return err
		}
	}
	before := tenant.DeepCopy()
	controllerutil.RemoveFinalizer(tenant, authv1beta1.TenantFinalizer)
	if err := r.Client.Patch(ctx, tenant, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizer of Tenant %q: %w", tenant.Name, err)
	}
	return nil
}

// isDuplicate reports whether a Tenant has nothing of its own: it is in the namespace of another
// cluster and was never accepted, or the namespace has another Tenant for the same cluster.
func (r *Reconciler) isDuplicate(ctx context.Context, tenant *authv1beta1.Tenant) (bool, error) {
	_, problem, err := authentication.ReadTenantNamespace(ctx, r.Client, tenant.Namespace, tenant.Spec.ClusterID)
	if client.IgnoreNotFound(err) != nil {
		return false, err
	}
	if problem != "" && tenant.Status.TenantNamespace == "" {
		return true, nil
	}
	tenants := &authv1beta1.TenantList{}
	if err := r.Client.List(ctx, tenants, client.InNamespace(tenant.Namespace)); err != nil {
		return false, fmt.Errorf("listing Tenants of namespace %q: %w", tenant.Namespace, err)
	}
	return slices.ContainsFunc(tenants.Items, func(other authv1beta1.Tenant) bool {
		return other.UID != tenant.UID && other.Spec.ClusterID == tenant.Spec.ClusterID && other.DeletionTimestamp.IsZero()
	}), nil
}

// refuse records why a Tenant has no credentials.
func (r *Reconciler) refuse(ctx context.Context, tenant *authv1beta1.Tenant, refused *refusal) error {
	changed, err := r.setStatus(ctx, tenant, metav1.ConditionFalse, refused.reason, refused.message, func(*authv1beta1.TenantStatus) {})
	if changed && refused.reason != reasonPending {
		r.Events.Eventf(tenant, nil, corev1.EventTypeWarning, refused.reason, actionAuthenticate, "%s", refused.message)
	}
	return err
}

// accept records the credentials of a Tenant.
func (r *Reconciler) accept(ctx context.Context, tenant *authv1beta1.Tenant, params *authv1beta1.AuthParams, reason, message string) error {
	_, err := r.setStatus(ctx, tenant, metav1.ConditionTrue, reason, message, func(status *authv1beta1.TenantStatus) {
		status.TenantNamespace, status.AuthParams = tenant.Namespace, params
	})
	return err
}

func (r *Reconciler) setStatus(ctx context.Context, tenant *authv1beta1.Tenant, ready metav1.ConditionStatus, reason, message string, change func(*authv1beta1.TenantStatus)) (bool, error) {
	before := tenant.DeepCopy()
	change(&tenant.Status)
	meta.SetStatusCondition(&tenant.Status.Conditions, metav1.Condition{
		Type: authv1beta1.TenantReady, Status: ready, Reason: reason, Message: message,
		ObservedGeneration: tenant.Generation, LastTransitionTime: metav1.NewTime(r.Clock.Now()),
	})
	if equality.Semantic.DeepEqual(before.Status, tenant.Status) {
		return false, nil
	}
	if err := r.Client.Status().Patch(ctx, tenant, client.MergeFrom(before)); err != nil {
		return false, fmt.Errorf("patching the status of Tenant %q: %w", tenant.Name, err)
	}
	return true, nil
}

// renew gives the credentials to the Renews that the consumer replicated. The address, the
// authority and the proxy are credentials, too: the consumer has no other source of them.
func (r *Reconciler) renew(ctx context.Context, tenant *authv1beta1.Tenant, params *authv1beta1.AuthParams) error {
	renews := &authv1beta1.RenewList{}
	if err := r.Client.List(ctx, renews, client.InNamespace(tenant.Namespace), client.MatchingLabels{liqocorev1beta1.ReplicatedLabel: "true"}); err != nil {
		return fmt.Errorf("listing Renews of namespace %q: %w", tenant.Namespace, err)
	}
	for i := range renews.Items {
		renew := &renews.Items[i]
		if renew.Spec.IdentityType != authv1beta1.ControlPlaneIdentityType ||
			equality.Semantic.DeepEqual(renew.Status.AuthParams, params) {
			continue
		}
		before := renew.DeepCopy()
		renew.Status.AuthParams = params
		if err := r.Client.Status().Patch(ctx, renew, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("patching the status of Renew %q: %w", renew.Name, err)
		}
	}
	return nil
}

// drain withdraws a consumer without forgetting it.
func (r *Reconciler) drain(ctx context.Context, tenant *authv1beta1.Tenant) error {
	if err := r.takeBack(ctx, tenant); err != nil {
		return err
	}
	_, err := r.setStatus(ctx, tenant, metav1.ConditionFalse, reasonDrained, "An administrator drained the tenant. Set spec.tenantCondition to Active to admit it again.", func(*authv1beta1.TenantStatus) {})
	return err
}

// takeBack removes the rights of a consumer, then its slices, mappings and Renews. The consumer loses its
// rights first, so that it cannot create them again, and so that finalizers keep nothing but objects. What
// is not this cluster's own request to the consumer belongs to the consumer, whatever labels it has.
func (r *Reconciler) takeBack(ctx context.Context, tenant *authv1beta1.Tenant) error {
	if err := errors.Join(r.unbindVirtualKubelets(ctx, tenant), r.unbindControlPlane(ctx, tenant), r.unbindNamespaces(ctx, tenant), r.endIsolation(ctx, tenant)); err != nil {
		return err
	}
	granted, maps, renews := &authv1beta1.ResourceSliceList{}, &offloadingv1beta1.NamespaceMapList{}, &authv1beta1.RenewList{}
	for _, list := range []client.ObjectList{granted, maps, renews} {
		if err := r.Client.List(ctx, list, client.InNamespace(tenant.Namespace)); err != nil {
			return fmt.Errorf("listing what the consumer has in namespace %q: %w", tenant.Namespace, err)
		}
	}
	var objects []client.Object
	for i := range granted.Items {
		objects = append(objects, &granted.Items[i])
	}
	for i := range maps.Items {
		objects = append(objects, &maps.Items[i])
	}
	for i := range renews.Items {
		objects = append(objects, &renews.Items[i])
	}
	var errs []error
	for _, object := range objects {
		if object.GetDeletionTimestamp().IsZero() && !liqocorev1beta1.IsOwn(object) {
			errs = append(errs, client.IgnoreNotFound(r.Client.Delete(ctx, object)))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("deleting what the consumer has in namespace %q: %w", tenant.Namespace, err)
	}
	return nil
}

// cordon marks the slices of a cordoned tenant, and no others.
func (r *Reconciler) cordon(ctx context.Context, tenant *authv1beta1.Tenant) error {
	cordoned := tenant.Spec.TenantCondition == authv1beta1.TenantConditionCordoned
	slices := &authv1beta1.ResourceSliceList{}
	if err := r.Client.List(ctx, slices, client.InNamespace(tenant.Namespace), client.MatchingLabels{liqocorev1beta1.ReplicatedLabel: "true"}); err != nil {
		return fmt.Errorf("listing ResourceSlices of namespace %q: %w", tenant.Namespace, err)
	}
	for i := range slices.Items {
		slice := &slices.Items[i]
		if authentication.IsCordonedBy(slice, authv1beta1.CordonTenantAnnotation) == cordoned {
			continue
		}
		before := slice.DeepCopy()
		if cordoned {
			metav1.SetMetaDataAnnotation(&slice.ObjectMeta, authv1beta1.CordonTenantAnnotation, "true")
		} else {
			delete(slice.Annotations, authv1beta1.CordonTenantAnnotation)
		}
		if err := r.Client.Patch(ctx, slice, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("patching the annotations of ResourceSlice %q: %w", slice.Name, err)
		}
	}
	return nil
}
