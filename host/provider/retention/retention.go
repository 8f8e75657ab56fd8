// Package retention keeps the data of consumers whose reclaim policy is Retain when their remote
// namespace is deleted.
package retention

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// Volumes keeps volumes.
//
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=list
// +kubebuilder:rbac:groups="",resources=persistentvolumes,verbs=get;patch
type Volumes struct {
	Client client.Client
	// APIReader reads without a cache.
	APIReader client.Reader
}

// Retain gives the policy Retain to the volumes of the claims of a namespace that ask for it. Call
// it before the namespace is deleted. After an error, the data of some claims would be lost.
func (v *Volumes) Retain(ctx context.Context, namespace string) error {
	claims := &corev1.PersistentVolumeClaimList{}
	if err := v.APIReader.List(ctx, claims, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("listing the claims of namespace %q: %w", namespace, err)
	}
	var errs []error
	for i := range claims.Items {
		if claim := &claims.Items[i]; asksForRetention(claim) {
			errs = append(errs, v.retain(ctx, claim))
		}
	}
	return errors.Join(errs...)
}

func asksForRetention(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Annotations[offloadingv1beta1.ReclaimPolicyAnnotation] == string(corev1.PersistentVolumeReclaimRetain) && claim.Spec.VolumeName != ""
}

func (v *Volumes) retain(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	volume := &corev1.PersistentVolume{}
	switch err := v.APIReader.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, volume); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return wrap(err, claim, "reading")
	}
	// A consumer can name any volume in a claim that is not bound.
	if !isBoundTo(volume, claim) || volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain {
		return nil
	}
	before := volume.DeepCopy()
	volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	return wrap(v.Client.Patch(ctx, volume, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})), claim, "retaining")
}

func isBoundTo(volume *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	return volume.Spec.ClaimRef != nil && volume.Spec.ClaimRef.UID == claim.UID
}

func wrap(err error, claim *corev1.PersistentVolumeClaim, what string) error {
	if err != nil {
		return fmt.Errorf("%s PersistentVolume %q of claim %s/%s: %w", what, claim.Spec.VolumeName, claim.Namespace, claim.Name, err)
	}
	return nil
}
