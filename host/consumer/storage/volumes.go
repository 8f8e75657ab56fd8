package storage

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/retry"
)

// Volumes reclaims volumes whose claim was deleted, by their reclaim policy.
//
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=persistentvolumes,verbs=get;list;watch;delete
type Volumes struct {
	Client client.Client
	// APIReader reads what a deletion depends on.
	APIReader client.Reader
	// Namespace has the real claims.
	Namespace string
}

// SetupWithManager adds the controller. Its requests name volumes, which may not exist.
func (r *Volumes) SetupWithManager(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).Named("storage-volume").
		For(&corev1.PersistentVolume{}).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(r.volumeOfClaim)).
		WithOptions(controller.Options{RateLimiter: retry.Limiter[reconcile.Request]()}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("adding the controller of volumes: %w", err)
	}
	return nil
}

// volumeOfClaim returns the volume of a claim, of which a real claim has the UID as its name.
func (r *Volumes) volumeOfClaim(_ context.Context, object client.Object) []reconcile.Request {
	uid := object.GetUID()
	if object.GetNamespace() == r.Namespace {
		uid = types.UID(object.GetName())
	} else if object.GetDeletionTimestamp() == nil {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: volumeName(uid)}}}
}

// reclamation is what is done about a volume whose claim was deleted.
type reclamation struct{ deleteRealClaim, deleteVolume bool }

// decideReclamation returns what is done about a volume, or about a real claim whose volume was
// not created. hasClaim is whether the claim of a real claim exists. It is pure.
func decideReclamation(volume *corev1.PersistentVolume, realClaim *corev1.PersistentVolumeClaim, hasClaim bool) reclamation {
	switch {
	case volume == nil:
		// The volume of a bound real claim may have been deleted by an administrator, who then
		// retains the data.
		return reclamation{deleteRealClaim: realClaim != nil && realClaim.DeletionTimestamp == nil && !hasClaim && realClaim.Status.Phase == corev1.ClaimPending}
	case !isOurs(volume) || volume.DeletionTimestamp != nil || volume.Spec.ClaimRef == nil ||
		volume.Status.Phase != corev1.VolumeReleased || volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete:
		return reclamation{}
	case volume.Labels[offloadingv1beta1.StorageClusterLabel] != "" || realClaim == nil:
		// The finalizer of the claim was kept until its remote claim was deleted.
		return reclamation{deleteVolume: true}
	case !isRealClaimOf(realClaim, volume.Spec.ClaimRef):
		return reclamation{}
	}
	return reclamation{deleteRealClaim: realClaim.DeletionTimestamp == nil}
}

// Reconcile reclaims a volume.
func (r *Volumes) Reconcile(ctx context.Context, request reconcile.Request) (ctrl.Result, error) {
	uid, isName := strings.CutPrefix(request.Name, volumeName(""))
	if !isName {
		return ctrl.Result{}, nil
	}
	cached, err := find(ctx, r.Client, &corev1.PersistentVolume{}, request.NamespacedName)
	if err != nil || cached != nil && (!isOurs(cached) || cached.Status.Phase != corev1.VolumeReleased) {
		return ctrl.Result{}, err
	}
	realClaim, err := find(ctx, r.APIReader, &corev1.PersistentVolumeClaim{}, client.ObjectKey{Namespace: r.Namespace, Name: uid})
	if err != nil || cached == nil && realClaim == nil {
		return ctrl.Result{}, err
	}
	hasClaim, err := r.hasClaim(ctx, realClaim)
	if err != nil {
		return ctrl.Result{}, err
	}
	volume, err := find(ctx, r.APIReader, &corev1.PersistentVolume{}, request.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	d := decideReclamation(volume, realClaim, hasClaim)
	if d.deleteRealClaim {
		if err := r.Client.Delete(ctx, realClaim, client.Preconditions{UID: &realClaim.UID}); client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, fmt.Errorf("deleting the real claim %s/%s: %w", realClaim.Namespace, realClaim.Name, err)
		}
	}
	if d.deleteVolume {
		unchanged := client.Preconditions{UID: &volume.UID, ResourceVersion: &volume.ResourceVersion}
		if err := r.Client.Delete(ctx, volume, unchanged); client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, fmt.Errorf("deleting PersistentVolume %q: %w", volume.Name, err)
		}
	}
	return ctrl.Result{}, nil
}

// hasClaim reports whether the claim of a real claim, which may be nil, exists.
func (r *Volumes) hasClaim(ctx context.Context, realClaim *corev1.PersistentVolumeClaim) (bool, error) {
	if realClaim == nil {
		return false, nil
	}
	namespace, name, _ := strings.Cut(realClaim.Annotations[claimAnnotation], "/")
	claim, err := find(ctx, r.APIReader, &corev1.PersistentVolumeClaim{}, client.ObjectKey{Namespace: namespace, Name: name})
	if err != nil || claim == nil {
		return false, err
	}
	return string(claim.UID) == realClaim.Name, nil
}
