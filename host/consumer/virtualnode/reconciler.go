// Package virtualnode reconciles VirtualNodes: it runs a virtual kubelet for each, creates the
// NamespaceMap of the provider, and removes both in an order that loses no pod.
//
// A VirtualNode has parts. Each is a type in the file of its name, with one entry point, which [Reconciler]
// calls in this order:
//
//	created      prerequisites → rights → process → registration
//	withdrawn    drain → process → rights → release
package virtualnode

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
)

// FieldManager owns the Deployments of virtual kubelets.
const FieldManager = "virtual-node-controller"

// Reconciler runs virtual kubelets.
type Reconciler struct {
	// Client reads from the manager's cache.
	Client client.Client
	// APIReader reads objects that are not cached (kubeconfig Secrets, pods of a draining node)
	// or must not be stale (VirtualNodes that share a NamespaceMap, bindings of another one).
	APIReader client.Reader
	// DefaultOptions is the VkOptionsTemplate of VirtualNodes without a reference to one.
	DefaultOptions client.ObjectKey
	// Events records on the VirtualNode.
	Events events.EventRecorder
	// Clock is the time source of conditions.
	Clock clock.PassiveClock
	// Connect opens a client to a provider.
	Connect func(*rest.Config) (client.Client, error)
	// NetworkAccess is that of the NetworkPolicies of virtual kubelets; nil means that there are none.
	NetworkAccess *virtualkubelet.NetworkAccess

	// networkPolicies are the generations of Deployments, by UID, whose NetworkPolicy is as it should.
	networkPolicies sync.Map
}

// part is one of the parts of a VirtualNode. It changes objects of its own and, in memory, the status of the
// VirtualNode.
type part interface {
	// Reconcile returns a result other than zero if the next part must wait.
	Reconcile(ctx context.Context, vn *offloadingv1beta1.VirtualNode) (ctrl.Result, error)
}

// Reconcile reconciles one VirtualNode, part after part, and then writes its status.
//
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=virtualnodes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=virtualnodes/status,verbs=patch
func (r *Reconciler) Reconcile(ctx context.Context, vn *offloadingv1beta1.VirtualNode) (ctrl.Result, error) {
	hasNewImage, err := r.prepare(ctx, vn)
	if hasNewImage {
		return ctrl.Result{}, nil // The change enqueues the VirtualNode.
	}
	before := vn.DeepCopy()
	var result ctrl.Result
	if err == nil {
		result, err = r.reconcileParts(ctx, vn)
	}
	if err != nil {
		r.reporter().reportFailure(vn, err)
	}
	if !equality.Semantic.DeepEqual(before.Status, vn.Status) {
		if patchErr := r.Client.Status().Patch(ctx, vn, client.MergeFrom(before)); client.IgnoreNotFound(patchErr) != nil {
			return ctrl.Result{}, errors.Join(err, fmt.Errorf("writing the status of VirtualNode %s/%s: %w", vn.Namespace, vn.Name, patchErr))
		}
	}
	return result, err
}

// prepare writes what a VirtualNode must have before anything is created for it: the finalizer, and the image of
// its VkOptionsTemplate. It reports whether the image is a new one.
func (r *Reconciler) prepare(ctx context.Context, vn *offloadingv1beta1.VirtualNode) (bool, error) {
	if !vn.DeletionTimestamp.IsZero() {
		return false, nil
	}
	before := vn.DeepCopy()
	image, err := r.followImage(ctx, vn)
	if err != nil {
		return false, err
	}
	if !controllerutil.AddFinalizer(vn, offloadingv1beta1.VirtualNodeFinalizer) && image == "" {
		return false, nil
	}
	if err := r.Client.Patch(ctx, vn, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return false, fmt.Errorf("writing the finalizer and the image of VirtualNode %s/%s: %w", vn.Namespace, vn.Name, err)
	}
	if image != "" {
		r.Events.Eventf(vn, nil, corev1.EventTypeNormal, reasonImageChanged, actionRun, "The virtual kubelet gets %s", image)
	}
	return image != "", nil
}

// reconcileParts reconciles the parts in order, until one must wait. When all parts of a deleted VirtualNode are
// gone, it removes the finalizer.
func (r *Reconciler) reconcileParts(ctx context.Context, vn *offloadingv1beta1.VirtualNode) (ctrl.Result, error) {
	parts, err := r.parts(ctx, vn)
	if err != nil {
		return ctrl.Result{}, err
	}
	for _, part := range parts {
		if result, err := part.Reconcile(ctx, vn); err != nil || !result.IsZero() {
			return result, err
		}
	}
	before := vn.DeepCopy()
	if vn.DeletionTimestamp.IsZero() || !controllerutil.RemoveFinalizer(vn, offloadingv1beta1.VirtualNodeFinalizer) {
		return ctrl.Result{}, nil
	}
	if err := r.Client.Patch(ctx, vn, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("removing the finalizer of VirtualNode %s/%s: %w", vn.Namespace, vn.Name, err)
	}
	return ctrl.Result{}, nil
}

// parts returns the parts in the order in which they are created, or, for a deleted VirtualNode, withdrawn: no pod
// is lost while the virtual kubelet serves the Node until its last pod has ended, and a pod that does not end
// delays no other VirtualNode.
func (r *Reconciler) parts(ctx context.Context, vn *offloadingv1beta1.VirtualNode) ([]part, error) {
	reporter := r.reporter()
	rights := &rights{Client: r.Client, APIReader: r.APIReader, reporter: reporter}
	process := &process{
		Client: r.Client, APIReader: r.APIReader, reporter: reporter, NetworkAccess: r.NetworkAccess, networkPolicies: &r.networkPolicies,
	}
	if vn.DeletionTimestamp.IsZero() {
		return []part{
			&prerequisites{Client: r.Client, APIReader: r.APIReader, reporter: reporter},
			rights, process,
			&registration{Client: r.Client, APIReader: r.APIReader, reporter: reporter},
		}, nil
	}
	node, err := findNode(ctx, r.Client, r.APIReader, vn)
	if err != nil {
		return nil, err
	}
	return []part{
		&drain{Client: r.Client, APIReader: r.APIReader, reporter: reporter, node: node},
		process, rights,
		&release{Client: r.Client, APIReader: r.APIReader, Connect: r.Connect, reporter: reporter, node: node},
	}, nil
}

func (r *Reconciler) reporter() reporter { return reporter{Events: r.Events, Clock: r.Clock} }
