// Package resourceslice answers the ResourceSlices of consumers: it checks who asks,
// issues the credentials of the slice, and grants resources by its class.
//
// ResourceSliceAdmission policies grant the resources of slices of the built-in class; they
// are asked again after changes of the slice and of the policies. The cluster's allocatable resources
// are not among the facts: the manager does not watch Nodes for it. While a policy fails, an accepted
// slice keeps its grant and says so in its condition; a new one is denied.
package resourceslice

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/fair"
	"github.com/longshore-dev/longshore/host/kit/quantity"
	"github.com/longshore-dev/longshore/host/kit/retry"
	"github.com/longshore-dev/longshore/host/peering/authentication"
	"github.com/longshore-dev/longshore/host/policy/view"
	"github.com/longshore-dev/longshore/host/provider/certificate"
	"github.com/longshore-dev/longshore/host/provider/quota"
)

const (
	reasonNotInTenantNamespace = "NotInTenantNamespace"
	reasonNotRenewed           = "CredentialsNotRenewed"
	actionAuthenticate         = "Authenticate"
)

// errNoTenant is retried: the Tenant of the slice's namespace does not exist yet.
var errNoTenant = errors.New("namespace has no Tenant")

// Reconciler answers replicated ResourceSlices.
//
// +kubebuilder:rbac:groups=authentication.liqo.io,resources=resourceslices;tenants,verbs=get;list;watch
// +kubebuilder:rbac:groups=authentication.liqo.io,resources=resourceslices/status,verbs=patch
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
type Reconciler struct {
	Client client.Client
	// Events records on ResourceSlices.
	Events   events.EventRecorder
	Clock    clock.PassiveClock
	Issuer   *certificate.Issuer
	Endpoint *certificate.Endpoint
	Offer    Offer
	// Policies evaluates the ResourceSliceAdmission policies.
	Policies view.Evaluator
	// PoliciesChanged receives a value when decisions of policies may have changed; may be nil.
	PoliciesChanged <-chan event.GenericEvent
	// LimitsEnforcement of the Quotas.
	LimitsEnforcement offloadingv1beta1.LimitsEnforcement
}

// SetupWithManager registers watches on slices that were replicated to this cluster, and on
// Tenants.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	isRequest := predicate.NewPredicateFuncs(func(object client.Object) bool {
		_, ok := object.GetLabels()[certificate.RequestLabel]
		return ok
	})
	controlled := ctrl.NewControllerManagedBy(mgr).Named("resourceslice-remote")
	if r.PoliciesChanged != nil {
		controlled.WatchesRawSource(source.Channel(r.PoliciesChanged, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
			return r.requests(ctx)
		})))
	}
	return controlled.
		For(&authv1beta1.ResourceSlice{}, builder.WithPredicates(predicate.NewPredicateFuncs(isReplicated), predicate.Or(
			// Annotations cordon a slice; other controllers grant resources in its status.
			predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.NewPredicateFuncs(isOfAnotherClass),
		))).
		Owns(&offloadingv1beta1.Quota{}, builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, predicate.Funcs{UpdateFunc: startsOrEndsAbandoned},
		))).
		// What is granted names the classes that exist; the webhook refuses claims of others.
		Watches(&storagev1.StorageClass{}, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
			return r.requests(ctx)
		})).
		Watches(&authv1beta1.Tenant{}, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, object client.Object) []reconcile.Request {
			return r.requests(ctx, client.InNamespace(object.GetNamespace()))
		})).
		Watches(&certificatesv1.CertificateSigningRequest{}, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, object client.Object) []reconcile.Request {
			return r.requests(ctx, client.MatchingLabels{liqocorev1beta1.OriginIDLabel: object.GetLabels()[liqocorev1beta1.RemoteClusterIDLabel]})
		}), builder.WithPredicates(isRequest)).
		WithOptions(fair.Options(mgr.GetClient(), 1)).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
}

// isOfAnotherClass reports whether another controller grants a slice's resources.
func isOfAnotherClass(object client.Object) bool {
	slice, ok := object.(*authv1beta1.ResourceSlice)
	return ok && classOf(slice) != DefaultClass
}

// startsOrEndsAbandoned reports whether a Quota begins or ceases to count pods of slices that are gone.
func startsOrEndsAbandoned(ev event.UpdateEvent) bool {
	before, okBefore := ev.ObjectOld.(*offloadingv1beta1.Quota)
	after, okAfter := ev.ObjectNew.(*offloadingv1beta1.Quota)
	return okBefore && okAfter && (len(before.Status.Abandoned) == 0) != (len(after.Status.Abandoned) == 0)
}

// isReplicated reports whether an object is a copy of a consumer's.
func isReplicated(object client.Object) bool {
	labels := object.GetLabels()
	return labels[liqocorev1beta1.ReplicatedLabel] == "true" && labels[liqocorev1beta1.OriginIDLabel] != ""
}

func (r *Reconciler) requests(ctx context.Context, options ...client.ListOption) []reconcile.Request {
	list := &authv1beta1.ResourceSliceList{}
	if err := r.Client.List(ctx, list, options...); err != nil {
		// Listing from the cache fails only while the manager stops.
		ctrl.LoggerFrom(ctx).Error(err, "Listing ResourceSlices failed")
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if isReplicated(&list.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}

// Reconcile answers one slice. Its namespace says who asks: a consumer writes in no other, and
// cannot change its labels.
func (r *Reconciler) Reconcile(ctx context.Context, slice *authv1beta1.ResourceSlice) (ctrl.Result, error) {
	if !isReplicated(slice) {
		return ctrl.Result{}, nil
	}
	if !slice.DeletionTimestamp.IsZero() || len(slice.Spec.CSR) == 0 {
		return ctrl.Result{}, r.cordonQuotas(ctx, slice)
	}
	if err := r.leaveClass(ctx, slice); err != nil {
		return ctrl.Result{}, err
	}
	namespace, problem, err := authentication.ReadTenantNamespace(ctx, r.Client, slice.Namespace, ptr.Deref(slice.Spec.ConsumerClusterID, ""))
	if err != nil {
		return ctrl.Result{}, err
	}
	before := slice.DeepCopy()
	if problem != "" {
		r.denyAuthentication(slice, problem)
		r.Events.Eventf(slice, nil, corev1.EventTypeWarning, reasonNotInTenantNamespace, actionAuthenticate, "%s", problem)
		return ctrl.Result{}, errors.Join(r.cordonQuotas(ctx, slice), r.writeStatus(ctx, slice, before))
	}
	tenant, err := r.tenant(ctx, slice.Namespace)
	if err != nil {
		return ctrl.Result{}, err
	}
	abandoned, err := quota.Abandoned(ctx, r.Client, slice.Namespace, userOf(slice))
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("counting what no Quota counts: %w", err)
	}
	result, notIssued := r.authenticate(ctx, slice, tenant)
	// The resources are decided even so: the consumer could keep its grant with a request that fails.
	retryAfter, err := r.decide(ctx, slice, tenant, namespace, abandoned)
	if err != nil {
		return ctrl.Result{}, errors.Join(notIssued, err, r.writeStatus(ctx, slice, before))
	}
	// The Quota comes first: the consumer may use what the status grants at once.
	if err := r.keepQuota(ctx, slice, tenant.Spec.TenantCondition, abandoned); err != nil {
		return ctrl.Result{}, errors.Join(notIssued, err)
	}
	r.recordDecision(slice, before)
	if err := errors.Join(notIssued, r.writeStatus(ctx, slice, before)); err != nil {
		return ctrl.Result{}, err
	}
	if retryAfter > 0 && (result.RequeueAfter == 0 || retryAfter < result.RequeueAfter) {
		result.RequeueAfter = retryAfter
	}
	return result, nil
}

// tenant returns the Tenant of a tenant namespace: the oldest, since one is all that the
// webhook of the reference admits.
func (r *Reconciler) tenant(ctx context.Context, namespace string) (*authv1beta1.Tenant, error) {
	list := &authv1beta1.TenantList{}
	if err := r.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing Tenants of namespace %q: %w", namespace, err)
	}
	var tenant *authv1beta1.Tenant
	for i := range list.Items {
		if tenant == nil || list.Items[i].CreationTimestamp.Before(&tenant.CreationTimestamp) {
			tenant = &list.Items[i]
		}
	}
	if tenant == nil {
		return nil, fmt.Errorf("namespace %q: %w", namespace, errNoTenant)
	}
	return tenant, nil
}

// authenticate checks the certificate request of a slice and issues its credentials.
func (r *Reconciler) authenticate(ctx context.Context, slice *authv1beta1.ResourceSlice, tenant *authv1beta1.Tenant) (ctrl.Result, error) {
	if tenant.Spec.TenantCondition == authv1beta1.TenantConditionDrained {
		r.denyAuthentication(slice, "The tenant is drained.")
		return ctrl.Result{}, nil
	}
	if err := checkRequest(slice, tenant); err != nil {
		if until := validUntil(slice); r.Clock.Now().Before(until) {
			return ctrl.Result{RequeueAfter: until.Sub(r.Clock.Now())}, nil
		}
		r.denyAuthentication(slice, fmt.Sprintf("The certificate request is refused: %s.", err))
		return ctrl.Result{}, nil
	}
	consumer := *slice.Spec.ConsumerClusterID
	issued, err := r.Issuer.Issue(ctx, certificate.Request{Namespace: slice.Namespace, Consumer: consumer, Slice: slice.Name, CSR: slice.Spec.CSR, Owner: slice})
	if err != nil {
		return ctrl.Result{}, r.notIssued(slice, err)
	}
	if issued == nil {
		return ctrl.Result{}, nil // The CertificateSigningRequest enqueues the slice.
	}
	params, err := r.Endpoint.AuthParams(ctx, issued.PEM, tenant.Spec.ProxyURL)
	if err != nil {
		return ctrl.Result{}, r.notIssued(slice, err)
	}
	slice.Status.AuthParams = params
	setCondition(&slice.Status, authv1beta1.ResourceSliceConditionTypeAuthentication, authv1beta1.ResourceSliceConditionAccepted,
		reasonAuthenticationAccepted, "The credentials are issued.", metav1.NewTime(r.Clock.Now()))
	return ctrl.Result{RequeueAfter: max(issued.RenewAt.Sub(r.Clock.Now()), retry.Max)}, nil
}

// notIssued denies the credentials of a slice that has none. Those that were issued stay while they are
// valid: the consumer deletes its kubeconfig when they are denied. It returns the error, which is
// retried.
func (r *Reconciler) notIssued(slice *authv1beta1.ResourceSlice, err error) error {
	until := validUntil(slice)
	if !r.Clock.Now().Before(until) {
		r.denyAuthentication(slice, err.Error())
		return err
	}
	if errors.Is(err, certificate.ErrRefused) {
		r.Events.Eventf(slice, nil, corev1.EventTypeWarning, reasonNotRenewed, actionAuthenticate,
			"The credentials of the consumer end at %s and are not renewed: %v. An administrator of the provider must let the signer sign the request.", until.UTC().Format(time.RFC3339), err)
	}
	return err
}

// checkRequest checks that the certificate request is for this slice of this consumer, with the
// key that the consumer's handshake proved; without a handshake, with any key.
func checkRequest(slice *authv1beta1.ResourceSlice, tenant *authv1beta1.Tenant) error {
	subject := authentication.SliceSubject(*slice.Spec.ConsumerClusterID, slice.Name)
	if ptr.Deref(tenant.Spec.AuthzPolicy, authv1beta1.KeysExchange) == authv1beta1.TolerateNoHandshake {
		return authentication.CheckCSR(slice.Spec.CSR, subject, nil)
	}
	if tenant.Status.AuthParams == nil {
		return errors.New("the tenant's handshake is not complete")
	}
	key, err := authentication.ParsePublicKey(tenant.Spec.PublicKey)
	if err != nil {
		return fmt.Errorf("parsing the tenant's public key: %w", err)
	}
	return authentication.CheckCSR(slice.Spec.CSR, subject, key)
}

// validUntil returns until when the credentials of a slice stay although they cannot be renewed, such
// as those of a tenant that has another key now: until the consumer sends a request for another key,
// or its certificate ends. It is the zero time if the slice has none, or if its request is for anything else
// than the certificate that was issued.
func validUntil(slice *authv1beta1.ResourceSlice) time.Time {
	if slice.Status.AuthParams == nil || !slices.ContainsFunc(slice.Status.Conditions, func(c authv1beta1.ResourceSliceCondition) bool {
		return c.Type == authv1beta1.ResourceSliceConditionTypeAuthentication && c.Status == authv1beta1.ResourceSliceConditionAccepted
	}) {
		return time.Time{}
	}
	certificate, err := authentication.ParseCertificate(slice.Status.AuthParams.SignedCRT)
	if err != nil {
		return time.Time{}
	}
	subject := authentication.SliceSubject(*slice.Spec.ConsumerClusterID, slice.Name)
	if authentication.CheckCSR(slice.Spec.CSR, subject, certificate.PublicKey) != nil {
		return time.Time{}
	}
	return certificate.NotAfter
}

func (r *Reconciler) denyAuthentication(slice *authv1beta1.ResourceSlice, message string) {
	setCondition(&slice.Status, authv1beta1.ResourceSliceConditionTypeAuthentication, authv1beta1.ResourceSliceConditionDenied,
		reasonAuthenticationDenied, message, metav1.NewTime(r.Clock.Now()))
}

func (r *Reconciler) writeStatus(ctx context.Context, slice, before *authv1beta1.ResourceSlice) error {
	if quantity.Equal(before.Status, slice.Status) {
		return nil
	}
	if err := r.Client.Status().Patch(ctx, slice, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("patching the status of ResourceSlice %q: %w", slice.Name, err)
	}
	return nil
}
