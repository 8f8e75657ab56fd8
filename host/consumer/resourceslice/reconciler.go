// Package resourceslice follows a consumer's requests for resources: it completes
// them, and makes of the provider's answer an Identity and a VirtualNode.
package resourceslice

import (
	"context"
	"crypto"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/identity"
	kitevents "github.com/longshore-dev/longshore/host/kit/events"
	"github.com/longshore-dev/longshore/host/kit/fair"
	"github.com/longshore-dev/longshore/host/kit/quantity"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

const (
	reasonNotInTenantNamespace = "NotInTenantNamespace"
	reasonVirtualNodeCreated   = "VirtualNodeCreated"
	reasonVirtualNodeConflict  = "VirtualNodeConflict"
	reasonInvalidResources     = "InvalidResources"
	reasonInvalidLabels        = "InvalidLabels"
	reasonLabelsMissing        = "LabelsMissing"
	reasonNotRequested         = "VirtualNodeNotRequested"
	actionComplete             = "Complete"
	actionCreateVirtualNode    = "CreateVirtualNode"
)

// Reconciler follows the cluster's own ResourceSlices.
//
// +kubebuilder:rbac:groups=authentication.liqo.io,resources=resourceslices,verbs=get;list;watch;update
// +kubebuilder:rbac:groups=authentication.liqo.io,resources=resourceslices/finalizers,verbs=update
// +kubebuilder:rbac:groups=authentication.liqo.io,resources=identities,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=virtualnodes,verbs=get;list;watch;create;update
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
type Reconciler struct {
	Client client.Client
	// Events records on ResourceSlices.
	Events events.EventRecorder
	Keys   *identity.Keys
	// ClusterID is the own cluster's identity.
	ClusterID liqocorev1beta1.ClusterID
}

// SetupWithManager registers watches on the cluster's own slices and on what they own.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	own := predicate.NewPredicateFuncs(func(object client.Object) bool { return isOwn(object) })
	return ctrl.NewControllerManagedBy(mgr).Named("resourceslice-local").
		For(&authv1beta1.ResourceSlice{}, builder.WithPredicates(own)).
		Owns(&authv1beta1.Identity{}).
		Owns(&offloadingv1beta1.VirtualNode{}).
		Watches(&authv1beta1.Identity{}, handler.EnqueueRequestsFromMapFunc(r.slicesOf), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(fair.Options(mgr.GetClient(), 1)).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
}

// Reconcile completes one slice, and follows its answer.
func (r *Reconciler) Reconcile(ctx context.Context, slice *authv1beta1.ResourceSlice) (ctrl.Result, error) {
	if !isOwn(slice) || !slice.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil // The garbage collector removes what it owns.
	}
	if err := r.reportLabels(ctx, slice); err != nil || !isLocal(slice) {
		return ctrl.Result{}, err
	}
	provider := liqocorev1beta1.ClusterID(slice.Labels[liqocorev1beta1.RemoteIDLabel])
	_, problem, err := authentication.ReadTenantNamespace(ctx, r.Client, slice.Namespace, provider)
	if err != nil {
		return ctrl.Result{}, err
	}
	if problem != "" {
		r.Events.Eventf(slice, nil, corev1.EventTypeWarning, reasonNotInTenantNamespace, actionComplete, "The slice is not sent: %s", problem)
		return ctrl.Result{}, nil
	}
	if changed, err := r.complete(ctx, slice, provider); changed || err != nil {
		return ctrl.Result{}, err // The update enqueues the slice.
	}
	made, err := r.follow(ctx, slice)
	if err != nil || made == nil || made.Status.KubeconfigSecretRef == nil {
		return ctrl.Result{}, err
	}
	if !wantsVirtualNode(slice) {
		return ctrl.Result{}, r.reportUnused(ctx, slice, made.Status.KubeconfigSecretRef.Name)
	}
	return ctrl.Result{}, r.makeVirtualNode(ctx, slice, provider, made)
}

// makeVirtualNode keeps the VirtualNode of a slice, unless a Node cannot have what the provider grants, and the
// Identity for it.
func (r *Reconciler) makeVirtualNode(ctx context.Context, slice *authv1beta1.ResourceSlice, provider liqocorev1beta1.ClusterID, made *authv1beta1.Identity) error {
	if err := quantity.CheckCapacities(slice.Status.Resources); err != nil {
		r.Events.Eventf(slice, nil, corev1.EventTypeWarning, reasonInvalidResources, actionCreateVirtualNode,
			"Cluster %s grants resources that no Node can have, and the VirtualNode stays as it is: status.resources: %v. An administrator of the provider must correct the status of the slice.", provider, err)
		return nil // The correction enqueues the slice.
	}
	if problems := checkLabels(slice); len(problems) > 0 {
		r.Events.Eventf(slice, nil, corev1.EventTypeWarning, reasonInvalidLabels, actionCreateVirtualNode,
			"Cluster %s reports labels that no Node can have, and the VirtualNode stays as it is: %s. An administrator of the provider must correct the status of the slice.", provider, kitevents.Cut(problems[0].Error(), maxProblem))
		return nil // The correction enqueues the slice.
	}
	vn, err := r.ensureVirtualNode(ctx, slice, provider, made.Status.KubeconfigSecretRef.Name)
	if err != nil || vn == nil {
		return err
	}
	return r.keepFor(ctx, made, vn)
}

// reportLabels says which labels keep a slice from being sent.
func (r *Reconciler) reportLabels(ctx context.Context, slice *authv1beta1.ResourceSlice) error {
	namespace := &corev1.Namespace{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: slice.Namespace}, namespace); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading namespace %q: %w", slice.Namespace, err)
	}
	provider := liqocorev1beta1.ClusterID(namespace.Labels[liqocorev1beta1.RemoteClusterIDLabel])
	if problem := authentication.LabelsProblem(slice, provider); problem != "" {
		r.Events.Eventf(slice, nil, corev1.EventTypeWarning, reasonLabelsMissing, actionComplete, "%s", problem)
	}
	return nil
}

// reportUnused says why no VirtualNode is made of a slice that the provider accepted, unless one uses its
// credentials.
func (r *Reconciler) reportUnused(ctx context.Context, slice *authv1beta1.ResourceSlice, secret string) error {
	if condition(slice, authv1beta1.ResourceSliceConditionTypeResources) != authv1beta1.ResourceSliceConditionAccepted {
		return nil
	}
	list := &offloadingv1beta1.VirtualNodeList{}
	if err := r.Client.List(ctx, list, client.InNamespace(slice.Namespace)); err != nil {
		return fmt.Errorf("listing VirtualNodes in namespace %q: %w", slice.Namespace, err)
	}
	if !usesSecret(list.Items, secret) {
		r.Events.Eventf(slice, nil, corev1.EventTypeNormal, reasonNotRequested, actionCreateVirtualNode,
			"The provider accepted the slice, and no VirtualNode is made of it, because it lacks the annotation %s=true. Set it, or run longshorectl create virtualnode.", authv1beta1.CreateVirtualNodeAnnotation)
	}
	return nil
}

// complete fills what the administrator left out: both cluster IDs and the certificate request.
// A request for another subject or key is replaced: it could never be accepted. After the
// cluster's key was replaced, a request for the earlier key stays until the handshake has proved
// the new key to the provider.
func (r *Reconciler) complete(ctx context.Context, slice *authv1beta1.ResourceSlice, provider liqocorev1beta1.ClusterID) (bool, error) {
	key, _, err := r.Keys.Get(ctx)
	if err != nil {
		return false, err
	}
	proved, err := r.provedKey(ctx, slice.Namespace, provider)
	if err != nil {
		return false, err
	}
	subject := authentication.SliceSubject(r.ClusterID, slice.Name)
	isRequest := authentication.CheckCSR(slice.Spec.CSR, subject, key.Public()) == nil ||
		proved != nil && authentication.CheckCSR(slice.Spec.CSR, subject, proved) == nil
	if isRequest && ptr.Deref(slice.Spec.ConsumerClusterID, "") == r.ClusterID && ptr.Deref(slice.Spec.ProviderClusterID, "") == provider {
		return false, nil
	}
	completed := slice.DeepCopy()
	completed.Spec.ConsumerClusterID, completed.Spec.ProviderClusterID = ptr.To(r.ClusterID), ptr.To(provider)
	if !isRequest {
		if completed.Spec.CSR, err = authentication.NewCSR(key, subject); err != nil {
			return false, err
		}
	}
	if err := r.Client.Update(ctx, completed); err != nil {
		return false, fmt.Errorf("completing ResourceSlice %q: %w", slice.Name, err)
	}
	return true, nil
}

// provedKey returns the public key of the control plane's certificate, by which the provider knows
// this cluster, or nil without one.
func (r *Reconciler) provedKey(ctx context.Context, namespace string, provider liqocorev1beta1.ClusterID) (crypto.PublicKey, error) {
	controlPlane := &authv1beta1.Identity{}
	name := client.ObjectKey{Namespace: namespace, Name: authentication.ControlPlaneIdentityName(provider)}
	if err := r.Client.Get(ctx, name, controlPlane); err != nil {
		return nil, client.IgnoreNotFound(err) //nolint:wrapcheck // Reading from the cache.
	}
	certificate, err := authentication.ParseCertificate(controlPlane.Spec.AuthParams.SignedCRT)
	if err != nil {
		return nil, nil
	}
	return certificate.PublicKey, nil
}

// slicesOf returns requests for the slices in the namespace of a control plane's Identity: its
// certificate shows which key the provider knows.
func (r *Reconciler) slicesOf(ctx context.Context, object client.Object) []reconcile.Request {
	controlPlane, ok := object.(*authv1beta1.Identity)
	if !ok || controlPlane.Spec.Type != authv1beta1.ControlPlaneIdentityType {
		return nil
	}
	list := &authv1beta1.ResourceSliceList{}
	if err := r.Client.List(ctx, list, client.InNamespace(object.GetNamespace())); err != nil {
		// Listing from the cache fails only while the manager stops.
		ctrl.LoggerFrom(ctx).Error(err, "Listing ResourceSlices failed")
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if isLocal(&list.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}

// follow keeps the Identity of a slice as the provider authenticated it, and returns it; nil
// while it has not, or when it denied it.
func (r *Reconciler) follow(ctx context.Context, slice *authv1beta1.ResourceSlice) (*authv1beta1.Identity, error) {
	made := &authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Name: authentication.SliceIdentityName(slice.Name), Namespace: slice.Namespace}}
	want := authentication.SliceIdentity(slice)
	switch condition(slice, authv1beta1.ResourceSliceConditionTypeAuthentication) {
	case authv1beta1.ResourceSliceConditionDenied:
		if err := r.Client.Delete(ctx, made); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("deleting Identity %q, whose slice was denied: %w", made.Name, err)
		}
		return nil, nil
	case authv1beta1.ResourceSliceConditionAccepted:
	default:
		want = nil
	}
	if want == nil {
		return nil, nil
	}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, made, func() error {
		made.Labels = merge(made.Labels, want.Labels)
		made.Spec = want.Spec
		return controllerutil.SetControllerReference(slice, made, r.Client.Scheme())
	})
	if err != nil {
		return nil, fmt.Errorf("writing Identity %q: %w", made.Name, err)
	}
	return made, nil
}

// ensureVirtualNode keeps the VirtualNode of a slice, and returns it; nil if another one has its
// name.
func (r *Reconciler) ensureVirtualNode(ctx context.Context, slice *authv1beta1.ResourceSlice, provider liqocorev1beta1.ClusterID, secret string) (*offloadingv1beta1.VirtualNode, error) {
	vn := &offloadingv1beta1.VirtualNode{}
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(slice), vn)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading VirtualNode %q: %w", slice.Name, err)
	}
	exists := !apierrors.IsNotFound(err)
	if exists && !metav1.IsControlledBy(vn, slice) {
		r.Events.Eventf(slice, vn, corev1.EventTypeWarning, reasonVirtualNodeConflict, actionCreateVirtualNode,
			"VirtualNode %s exists and was not made of this slice. Delete it, or create the slice under another name.", vn.Name)
		return nil, nil
	}
	vn.Name, vn.Namespace = slice.Name, slice.Namespace
	before := vn.DeepCopy()
	setVirtualNode(vn, slice, provider, secret)
	err = controllerutil.SetControllerReference(slice, vn, r.Client.Scheme())
	switch {
	case err != nil:
	case !exists:
		err = r.Client.Create(ctx, vn)
	case !quantity.Equal(before, vn):
		err = r.Client.Update(ctx, vn)
	}
	if err != nil {
		return nil, fmt.Errorf("writing VirtualNode %q: %w", slice.Name, err)
	}
	if !exists {
		r.Events.Eventf(slice, vn, corev1.EventTypeNormal, reasonVirtualNodeCreated, actionCreateVirtualNode, "VirtualNode %s is created.", vn.Name)
	}
	return vn, nil
}

// keepFor makes the VirtualNode an owner of the Identity, too. When the slice is deleted, the garbage
// collector keeps the Identity with its kubeconfig Secret until the VirtualNode is withdrawn: a virtual
// kubelet that restarts while its pods end could not end them without.
func (r *Reconciler) keepFor(ctx context.Context, made *authv1beta1.Identity, vn *offloadingv1beta1.VirtualNode) error {
	before := made.DeepCopy()
	if err := controllerutil.SetOwnerReference(vn, made, r.Client.Scheme()); err != nil {
		return fmt.Errorf("setting an owner of Identity %q: %w", made.Name, err)
	}
	if equality.Semantic.DeepEqual(before.OwnerReferences, made.OwnerReferences) {
		return nil
	}
	if err := r.Client.Update(ctx, made); err != nil {
		return fmt.Errorf("keeping Identity %q for its VirtualNode: %w", made.Name, err)
	}
	return nil
}
