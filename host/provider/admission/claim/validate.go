// Package claim admits the volume claims of consumers by what they were granted: storage classes, and the
// sum of storage. What a claim may not name at all, whatever was granted, is in the chart (longshore-claims), where
// the API server itself evaluates it.
package claim

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/provider/quota"
)

// Path is where the webhook is served.
const Path = "/validate/persistentvolumeclaims"

// Validator admits claims in the remote namespaces of consumers.
//
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=list;watch
// +kubebuilder:rbac:groups=authentication.liqo.io,resources=resourceslices;tenants,verbs=list
type Validator struct {
	Decoder admission.Decoder
	// Reader reads namespaces and, if Quotas are enforced, claims from the cache, APIReader all else, and namespaces that
	// the cache does not have yet.
	Reader, APIReader client.Reader
	// Quotas admits the sum of a consumer's claims. It is nil when resources are not enforced.
	Quotas *quota.Enforcer
}

var _ admission.Handler = (*Validator)(nil)

// Handle implements admission.Handler.
//
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
func (v *Validator) Handle(ctx context.Context, request admission.Request) admission.Response {
	claim, before := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolumeClaim{}
	if err := v.Decoder.DecodeRaw(request.Object, claim); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the claim: %w", err))
	}
	if request.Operation == admissionv1.Update {
		if err := v.Decoder.DecodeRaw(request.OldObject, before); err != nil {
			return admission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the old claim: %w", err))
		}
	}
	claim.Namespace, claim.Name = request.Namespace, request.Name
	if claim.Name == "" {
		claim.Name = string(request.UID) // The API server generates the name later; each request counts.
	}
	namespace, err := v.namespace(ctx, request.Namespace)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	owner, isRemote := namespace.Annotations[offloadingv1beta1.ManagedByNamespaceMapAnnotation]
	if !isRemote {
		return admission.Allowed("")
	}
	tenant, _, _ := strings.Cut(owner, "/")
	err = v.checkClass(ctx, tenant, before, claim)
	isUpdate := request.Operation == admissionv1.Update
	if err == nil && v.Quotas != nil && (!isUpdate || !quota.ClaimOf(claim).IsWithin(quota.ClaimOf(before))) {
		err = v.Quotas.AdmitClaim(ctx, quota.ClaimOf(claim), ptr.Deref(request.DryRun, false), quota.Claimant{
			Tenant:      tenant,
			IsUnmanaged: func(ctx context.Context) (bool, error) { return v.isUnmanaged(ctx, tenant) },
			Claims: func(ctx context.Context) ([]quota.Claim, error) {
				return v.claims(ctx, namespace.Labels[liqocorev1beta1.RemoteClusterIDLabel], tenant)
			},
		})
	}
	var denied *quota.Denied
	switch {
	case errors.As(err, &denied):
		return admission.Denied(denied.Reason)
	case err != nil:
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.Allowed("")
}

func (v *Validator) namespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	namespace := &corev1.Namespace{}
	err := v.Reader.Get(ctx, client.ObjectKey{Name: name}, namespace)
	if client.IgnoreNotFound(err) == nil && namespace.Annotations[offloadingv1beta1.ManagedByNamespaceMapAnnotation] == "" {
		err = v.APIReader.Get(ctx, client.ObjectKey{Name: name}, namespace)
	}
	if err != nil {
		return nil, fmt.Errorf("reading namespace %q: %w", name, err)
	}
	return namespace, nil
}

// checkClass denies a new claim of a storage class that no ResourceSlice of the consumer was granted. A consumer
// that was peered by hand has neither ResourceSlices nor a Tenant, and may use any class. One with a Tenant deletes its
// ResourceSlices when it likes, and the credentials of a deleted one stay valid.
func (v *Validator) checkClass(ctx context.Context, tenant string, before, claim *corev1.PersistentVolumeClaim) error {
	class := ptr.Deref(claim.Spec.StorageClassName, "")
	if class == "" || class == ptr.Deref(before.Spec.StorageClassName, "") {
		return nil
	}
	granted := &authv1beta1.ResourceSliceList{}
	if err := v.APIReader.List(ctx, granted, client.InNamespace(tenant), client.MatchingLabels{liqocorev1beta1.ReplicatedLabel: "true"}); err != nil {
		return fmt.Errorf("listing the ResourceSlices of namespace %q: %w", tenant, err)
	}
	if slices.ContainsFunc(granted.Items, func(slice authv1beta1.ResourceSlice) bool { return grants(&slice, class) }) {
		return nil
	}
	if len(granted.Items) == 0 {
		if isUnmanaged, err := v.isUnmanaged(ctx, tenant); err != nil || isUnmanaged {
			return err
		}
	}
	return &quota.Denied{Reason: fmt.Sprintf("storage class %q is in status.storageClasses of no accepted ResourceSlice of the consumer: "+
		"use one that the virtual node offers, or have the provider's administrator create and offer the class", class)}
}

// isUnmanaged reports whether a consumer has no Tenant. Only administrators of the provider can delete one, and then
// the consumer loses its rights first.
func (v *Validator) isUnmanaged(ctx context.Context, tenant string) (bool, error) {
	tenants := &authv1beta1.TenantList{}
	if err := v.APIReader.List(ctx, tenants, client.InNamespace(tenant)); err != nil {
		return false, fmt.Errorf("listing the Tenants of namespace %q: %w", tenant, err)
	}
	return len(tenants.Items) == 0, nil
}

// grants reports whether a ResourceSlice was granted a storage class. One that is being deleted, or that was refused
// credentials, grants nothing: its resources may be accepted all the same, since they are decided by themselves.
func grants(slice *authv1beta1.ResourceSlice, class string) bool {
	has := func(kind authv1beta1.ResourceSliceConditionType, status authv1beta1.ResourceSliceConditionStatus) bool {
		return slices.ContainsFunc(slice.Status.Conditions, func(c authv1beta1.ResourceSliceCondition) bool { return c.Type == kind && c.Status == status })
	}
	return slice.DeletionTimestamp.IsZero() &&
		has(authv1beta1.ResourceSliceConditionTypeResources, authv1beta1.ResourceSliceConditionAccepted) &&
		!has(authv1beta1.ResourceSliceConditionTypeAuthentication, authv1beta1.ResourceSliceConditionDenied) &&
		slices.ContainsFunc(slice.Status.StorageClasses, func(offered authv1beta1.StorageType) bool { return offered.StorageClassName == class })
}

// claims returns the claims in all remote namespaces of a consumer.
func (v *Validator) claims(ctx context.Context, consumer, tenant string) ([]quota.Claim, error) {
	namespaces := &corev1.NamespaceList{}
	if err := v.Reader.List(ctx, namespaces, client.MatchingLabels{liqocorev1beta1.RemoteClusterIDLabel: consumer}); err != nil {
		return nil, fmt.Errorf("listing the namespaces of cluster %q: %w", consumer, err)
	}
	var claims []quota.Claim
	for i := range namespaces.Items {
		if !strings.HasPrefix(namespaces.Items[i].Annotations[offloadingv1beta1.ManagedByNamespaceMapAnnotation], tenant+"/") {
			continue
		}
		list := &corev1.PersistentVolumeClaimList{}
		if err := v.Reader.List(ctx, list, client.InNamespace(namespaces.Items[i].Name), client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing the claims of namespace %q: %w", namespaces.Items[i].Name, err)
		}
		claims = append(claims, quota.ClaimsOf(list.Items)...)
	}
	return claims, nil
}
