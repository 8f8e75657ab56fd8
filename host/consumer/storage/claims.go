package storage

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/retry"
)

// actionProvision is the action of events.
const actionProvision = "Provision"

// Claims provisions the volumes of claims.
//
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=persistentvolumes,verbs=get;list;watch;create
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=get;list;watch
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=namespacemaps;virtualnodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
type Claims struct {
	Client client.Client
	// APIReader reads volumes before a decision that deletes data.
	APIReader client.Reader
	Events    events.EventRecorder
	// RealClass is the class of volumes in this cluster; empty is the cluster's default.
	RealClass string
	// Namespace has the real claims.
	Namespace string
}

// SetupWithManager adds the controller.
func (r *Claims) SetupWithManager(mgr ctrl.Manager) error {
	pending := handler.EnqueueRequestsFromMapFunc(r.pendingClaims)
	err := ctrl.NewControllerManagedBy(mgr).Named("storage-claim").
		For(&corev1.PersistentVolumeClaim{}).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(r.claimOfRealClaim)).
		Watches(&corev1.PersistentVolume{}, handler.EnqueueRequestsFromMapFunc(r.claimOfVolume)).
		Watches(&storagev1.StorageClass{}, pending).
		Watches(&offloadingv1beta1.NamespaceMap{}, pending, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&offloadingv1beta1.VirtualNode{}, pending, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{RateLimiter: retry.Limiter[reconcile.Request]()}).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
	if err != nil {
		return fmt.Errorf("adding the controller of claims: %w", err)
	}
	return nil
}

// claimOfRealClaim returns the claim of a claim in the storage namespace.
func (r *Claims) claimOfRealClaim(_ context.Context, object client.Object) []reconcile.Request {
	if object.GetNamespace() != r.Namespace {
		return nil
	}
	namespace, name, found := strings.Cut(object.GetAnnotations()[claimAnnotation], "/")
	if !found {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: namespace, Name: name}}}
}

// claimOfVolume returns the claim of a volume: for the volume of a real claim, the claim of that.
func (r *Claims) claimOfVolume(ctx context.Context, object client.Object) []reconcile.Request {
	volume, ok := object.(*corev1.PersistentVolume)
	if !ok || volume.Spec.ClaimRef == nil {
		return nil
	}
	key := client.ObjectKey{Namespace: volume.Spec.ClaimRef.Namespace, Name: volume.Spec.ClaimRef.Name}
	if key.Namespace != r.Namespace {
		return []reconcile.Request{{NamespacedName: key}}
	}
	realClaim := &corev1.PersistentVolumeClaim{}
	if err := r.Client.Get(ctx, key, realClaim); err != nil {
		return nil
	}
	return r.claimOfRealClaim(ctx, realClaim)
}

// pendingClaims returns the claims that wait for a volume, and those with data in a provider.
func (r *Claims) pendingClaims(ctx context.Context, _ client.Object) []reconcile.Request {
	claims := &corev1.PersistentVolumeClaimList{}
	if err := r.Client.List(ctx, claims); err != nil {
		// Listing from the cache fails only while the manager stops.
		ctrl.LoggerFrom(ctx).Error(err, "Listing claims failed")
		return nil
	}
	var requests []reconcile.Request
	for i := range claims.Items {
		claim := &claims.Items[i]
		if claim.Spec.VolumeName == "" && claim.Annotations[selectedNodeAnnotation] != "" ||
			claim.Labels[offloadingv1beta1.StorageClusterLabel] != "" {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(claim)})
		}
	}
	return requests
}

// Reconcile carries out the decision about a claim.
func (r *Claims) Reconcile(ctx context.Context, claim *corev1.PersistentVolumeClaim) (ctrl.Result, error) {
	if claim.Namespace == r.Namespace {
		return ctrl.Result{}, nil
	}
	f, err := r.gather(ctx, claim)
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.execute(ctx, claim, decide(f))
}

// gather reads what the decision depends on.
func (r *Claims) gather(ctx context.Context, claim *corev1.PersistentVolumeClaim) (*facts, error) {
	f := &facts{claim: claim, namespace: r.Namespace}
	var err error
	if f.offloadedTo, err = r.offloadedTo(ctx, claim.Namespace); err != nil {
		return nil, err
	}
	// A decision about a bound claim deletes nothing.
	name, reader := claim.Spec.VolumeName, client.Reader(r.Client)
	if name == "" || claim.DeletionTimestamp != nil {
		reader = r.APIReader
	}
	if name == "" {
		name = volumeName(claim.UID)
	}
	if f.volume, err = find(ctx, reader, &corev1.PersistentVolume{}, client.ObjectKey{Name: name}); err != nil {
		return nil, err
	}
	if claim.DeletionTimestamp != nil || claim.Spec.VolumeName != "" || claim.Spec.StorageClassName == nil {
		return f, nil
	}
	if f.class, err = find(ctx, r.Client, &storagev1.StorageClass{}, client.ObjectKey{Name: *claim.Spec.StorageClassName}); err != nil {
		return nil, err
	}
	node := claim.Annotations[selectedNodeAnnotation]
	if node == "" || f.class == nil || f.class.Provisioner != offloadingv1beta1.StorageProvisioner {
		return f, nil
	}
	if f.node, err = find(ctx, r.Client, &corev1.Node{}, client.ObjectKey{Name: node}); err != nil {
		return nil, err
	}
	if f.virtualNode, err = r.virtualNode(ctx, node); err != nil {
		return nil, err
	}
	return f, r.gatherReal(ctx, f)
}

// gatherReal reads the objects of a volume in this cluster.
func (r *Claims) gatherReal(ctx context.Context, f *facts) error {
	classes := &storagev1.StorageClassList{}
	if err := r.Client.List(ctx, classes); err != nil {
		return fmt.Errorf("listing StorageClasses: %w", err)
	}
	f.realClass, f.realClassError = realClassOf(r.RealClass, classes.Items)
	var err error
	key := client.ObjectKey{Namespace: r.Namespace, Name: string(f.claim.UID)}
	if f.realClaim, err = find(ctx, r.Client, &corev1.PersistentVolumeClaim{}, key); err != nil || f.realClaim == nil || f.realClaim.Spec.VolumeName == "" {
		return err
	}
	f.realVolume, err = find(ctx, r.Client, &corev1.PersistentVolume{}, client.ObjectKey{Name: f.realClaim.Spec.VolumeName})
	return err
}

// offloadedTo returns the providers that a namespace is offloaded to.
func (r *Claims) offloadedTo(ctx context.Context, namespace string) ([]string, error) {
	maps := &offloadingv1beta1.NamespaceMapList{}
	if err := r.Client.List(ctx, maps); err != nil {
		return nil, fmt.Errorf("listing NamespaceMaps: %w", err)
	}
	var clusters []string
	for i := range maps.Items {
		nm := &maps.Items[i]
		// Those that the label does not select are the peers'.
		cluster := nm.Labels[liqocorev1beta1.RemoteIDLabel]
		if _, desired := nm.Spec.DesiredMapping[namespace]; desired && cluster != "" && cluster == nm.Labels[liqocorev1beta1.RemoteClusterIDLabel] {
			clusters = append(clusters, cluster)
		}
	}
	slices.Sort(clusters)
	return slices.Compact(clusters), nil
}

// virtualNode returns the VirtualNode of a Node, which has the same name, or nil.
func (r *Claims) virtualNode(ctx context.Context, node string) (*offloadingv1beta1.VirtualNode, error) {
	nodes := &offloadingv1beta1.VirtualNodeList{}
	if err := r.Client.List(ctx, nodes); err != nil {
		return nil, fmt.Errorf("listing VirtualNodes: %w", err)
	}
	for i := range nodes.Items {
		if nodes.Items[i].Name == node {
			return &nodes.Items[i], nil
		}
	}
	return nil, nil
}

// find reads an object; nil means that it does not exist.
func find[T client.Object](ctx context.Context, reader client.Reader, object T, key client.ObjectKey) (T, error) {
	var none T
	err := reader.Get(ctx, key, object)
	switch {
	case apierrors.IsNotFound(err):
		return none, nil
	case err != nil:
		return none, fmt.Errorf("reading %T %s: %w", object, key, err)
	}
	return object, nil
}

// execute carries out a decision about a claim.
func (r *Claims) execute(ctx context.Context, claim *corev1.PersistentVolumeClaim, d decision) error {
	if err := r.patch(ctx, claim, d); err != nil {
		return err
	}
	if d.event != nil {
		r.Events.Eventf(claim, nil, d.event.kind, d.event.reason, actionProvision, "%s", d.event.message)
	}
	switch {
	case d.createVolume != nil:
		if err := r.Client.Create(ctx, d.createVolume); client.IgnoreAlreadyExists(err) != nil {
			return fmt.Errorf("creating PersistentVolume %q: %w", d.createVolume.Name, err)
		}
	case d.createRealClaim != nil:
		if err := r.Client.Create(ctx, d.createRealClaim); client.IgnoreAlreadyExists(err) != nil {
			return fmt.Errorf("creating the real claim %s/%s: %w", r.Namespace, d.createRealClaim.Name, err)
		}
	case d.deleteRealClaim:
		realClaim := &corev1.PersistentVolumeClaim{}
		realClaim.Namespace, realClaim.Name = r.Namespace, string(claim.UID)
		if err := r.Client.Delete(ctx, realClaim); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting the real claim %s/%s: %w", r.Namespace, realClaim.Name, err)
		}
	}
	return nil
}

// patch changes the metadata of a claim, if the decision does. A claim that was changed since it
// was read conflicts.
func (r *Claims) patch(ctx context.Context, claim *corev1.PersistentVolumeClaim, d decision) error {
	if len(d.labels)+len(d.annotations) == 0 && !d.addFinalizer && !d.removeFinalizer {
		return nil
	}
	changed := claim.DeepCopy()
	changed.Labels, changed.Annotations = merge(changed.Labels, d.labels), merge(changed.Annotations, d.annotations)
	if d.addFinalizer {
		controllerutil.AddFinalizer(changed, offloadingv1beta1.ClaimFinalizer)
	}
	if d.removeFinalizer {
		controllerutil.RemoveFinalizer(changed, offloadingv1beta1.ClaimFinalizer)
	}
	err := r.Client.Patch(ctx, changed, client.MergeFromWithOptions(claim, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("patching claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}

func merge(have map[string]string, changes map[string]*string) map[string]string {
	for key, value := range changes {
		if value == nil {
			delete(have, key)
			continue
		}
		if have == nil {
			have = map[string]string{}
		}
		have[key] = *value
	}
	return have
}
