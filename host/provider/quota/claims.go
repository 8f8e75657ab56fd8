package quota

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/quantity"
)

const (
	// maxClaims bounds the claims in the status of a Quota.
	maxClaims = 500
	// claimsLag is how long a claim that was admitted stays in the status of a Quota although it is stored: the caches of
	// other replicas may not have it yet.
	claimsLag = 10 * time.Second
)

// Claim is a claim of a consumer, or its expansion.
type Claim struct {
	types.NamespacedName
	// Storage that it requests.
	Storage resource.Quantity
}

// TrimClaim is a cache transformation that drops what [ClaimOf] does not need.
func TrimClaim(object any) (any, error) {
	claim, ok := object.(*corev1.PersistentVolumeClaim)
	if !ok {
		return object, nil
	}
	kept := &corev1.PersistentVolumeClaim{TypeMeta: claim.TypeMeta}
	kept.Name, kept.Namespace, kept.UID, kept.ResourceVersion = claim.Name, claim.Namespace, claim.UID, claim.ResourceVersion
	if storage, ok := claim.Spec.Resources.Requests[corev1.ResourceStorage]; ok {
		kept.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: storage}
	}
	return kept, nil
}

// ClaimsOf returns a claim of each object.
func ClaimsOf(objects []corev1.PersistentVolumeClaim) []Claim {
	claims := make([]Claim, 0, len(objects))
	for i := range objects {
		claims = append(claims, ClaimOf(&objects[i]))
	}
	return claims
}

// ClaimOf returns what a claim requests.
func ClaimOf(object *corev1.PersistentVolumeClaim) Claim {
	return Claim{client.ObjectKeyFromObject(object), object.Spec.Resources.Requests[corev1.ResourceStorage]}
}

// IsWithin reports whether a claim requests no more than it did before. Amounts that take hours to compare are not.
func (c Claim) IsWithin(before Claim) bool {
	return quantity.Check(c.Storage) == nil && quantity.Check(before.Storage) == nil && c.Storage.Cmp(before.Storage) <= 0
}

// Claimant is a consumer with claims.
type Claimant struct {
	// Tenant is its tenant namespace.
	Tenant string
	// IsUnmanaged reports whether it was peered by hand, so that it may need no Quota.
	IsUnmanaged func(context.Context) (bool, error)
	// Claims returns its claims as this replica knows them.
	Claims func(context.Context) ([]Claim, error)
}

// AdmitClaim admits a claim that is new or grows if the sum of the consumer's claims stays within what the Quotas of
// its tenant namespace grant, and returns a [Denied] error otherwise. Claims that were admitted and may not be stored, or
// known to all replicas, are in the status of one Quota, so that the replicas of the webhook decide one after the other.
// In a replica, the claims of a consumer wait for each other and for no others.
func (e *Enforcer) AdmitClaim(ctx context.Context, claim Claim, dryRun bool, of Claimant) error {
	leave, err := e.claims.enter(ctx, of.Tenant)
	if err != nil {
		return err
	}
	defer leave()
	for range maxAttempts {
		// The Quotas come first: a claim that another replica admits meanwhile is a conflict.
		quotas := &offloadingv1beta1.QuotaList{}
		if err := e.APIReader.List(ctx, quotas, client.InNamespace(of.Tenant)); err != nil {
			return fmt.Errorf("listing the Quotas of namespace %q: %w", of.Tenant, err)
		}
		first, granted := storageGrant(quotas.Items)
		if first == nil {
			return of.admitUnbounded(ctx, quotas.Items)
		}
		claims, err := of.Claims(ctx)
		if err != nil {
			return err
		}
		status, err := reserveClaim(first, granted, claims, claim, e.Clock.Now())
		if err != nil || dryRun || equality.Semantic.DeepEqual(status, &first.Status) {
			return err
		}
		first.Status = *status
		switch err := e.Client.Status().Update(ctx, first); {
		case err == nil:
			return nil
		case !apierrors.IsConflict(err):
			return fmt.Errorf("reserving storage in Quota %s/%s: %w", first.Namespace, first.Name, err)
		}
	}
	return fmt.Errorf("the Quotas of namespace %q changed %d times while storage was reserved", of.Tenant, maxAttempts)
}

// admitUnbounded admits a claim of a consumer none of whose Quotas names storage, if one of them grants anything.
// Without Quotas only a consumer that was peered by hand gets storage: others lose theirs with their ResourceSlices.
func (c Claimant) admitUnbounded(ctx context.Context, quotas []offloadingv1beta1.Quota) error {
	if len(quotas) > 0 {
		if slices.ContainsFunc(quotas, func(q offloadingv1beta1.Quota) bool { return !ptr.Deref(q.Spec.Cordoned, false) }) {
			return nil
		}
		return &Denied{"each Quota of the consumer is cordoned: the provider grants it no more storage until its administrator uncordons one. Claims that exist stay"}
	}
	if isUnmanaged, err := c.IsUnmanaged(ctx); err != nil || isUnmanaged {
		return err
	}
	return &Denied{"the consumer has no accepted ResourceSlice in the provider, and gets no more storage: the consumer must create its ResourceSlice again. Claims that exist stay"}
}

// storageGrant returns what the Quotas of a consumer grant together, and the oldest one that names storage;
// nil if none does. A Quota that is cordoned grants nothing more. It is pure.
func storageGrant(quotas []offloadingv1beta1.Quota) (first *offloadingv1beta1.Quota, granted resource.Quantity) {
	for i := range quotas {
		quota := &quotas[i]
		amount, ok := quota.Spec.Resources[corev1.ResourceRequestsStorage]
		if !ok {
			amount, ok = quota.Spec.Resources[corev1.ResourceStorage]
		}
		if !ok {
			continue
		}
		if first == nil || quota.CreationTimestamp.Before(&first.CreationTimestamp) {
			first = quota
		}
		if !ptr.Deref(quota.Spec.Cordoned, false) && quantity.Check(amount) == nil {
			granted.Add(amount)
		}
	}
	return first, granted
}

// reserveClaim returns the status of a Quota with a claim that fits. Only the larger of what a claim requests and
// of what was admitted for its name counts. It is pure.
func reserveClaim(quota *offloadingv1beta1.Quota, granted resource.Quantity, claims []Claim, claim Claim, now time.Time) (*offloadingv1beta1.QuotaStatus, error) {
	if err := quantity.Check(claim.Storage); err != nil {
		return nil, &Denied{fmt.Sprintf("storage of claim %s: %v", claim.NamespacedName, err)}
	}
	status := quota.Status.DeepCopy()
	taken := map[types.NamespacedName]resource.Quantity{}
	for _, c := range claims {
		if quantity.Check(c.Storage) != nil {
			c.Storage = *resource.NewQuantity(math.MaxInt64, resource.BinarySI) // created before it was checked
		}
		taken[c.NamespacedName] = c.Storage
	}
	status.Claims = slices.DeleteFunc(status.Claims, func(c offloadingv1beta1.QuotaClaim) bool {
		key := types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
		stored := taken[key]
		switch {
		case now.After(c.Time.Add(reservationLifetime)) || quantity.Check(c.Storage) != nil:
			return true
		case stored.Cmp(c.Storage) >= 0:
			return now.After(c.Time.Add(claimsLag))
		}
		taken[key] = c.Storage
		return false
	})
	if have := taken[claim.NamespacedName]; have.Cmp(claim.Storage) >= 0 {
		renew(status, claim, now)
		return status, nil
	}
	delete(taken, claim.NamespacedName)
	var used resource.Quantity
	for _, storage := range taken {
		used.Add(storage)
	}
	sum := used.DeepCopy()
	sum.Add(claim.Storage)
	switch {
	case sum.Cmp(granted) > 0:
		return nil, &Denied{fmt.Sprintf("exceeded %s of the consumer's Quotas: requested %s; used %s; granted %s",
			corev1.ResourceRequestsStorage, &claim.Storage, &used, &granted)}
	case len(status.Claims) >= maxClaims:
		return nil, fmt.Errorf("%d claims were admitted in the last %s: the claim can be created again later", maxClaims, reservationLifetime)
	}
	status.Claims = append(status.Claims, offloadingv1beta1.QuotaClaim{
		Namespace: claim.Namespace, Name: claim.Name, Storage: claim.Storage, Time: metav1.NewTime(now),
	})
	return status, nil
}

// renew has what was admitted for the name of a claim count from now on: that claim will be stored after this decision.
func renew(status *offloadingv1beta1.QuotaStatus, claim Claim, now time.Time) {
	for i := range status.Claims {
		if c := &status.Claims[i]; c.Namespace == claim.Namespace && c.Name == claim.Name {
			c.Time = metav1.NewTime(now)
		}
	}
}
