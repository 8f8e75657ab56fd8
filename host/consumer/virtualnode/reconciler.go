// Package virtualnode reconciles VirtualNodes: it runs a virtual kubelet for each, creates the
// NamespaceMap of the provider, and removes both in an order that loses no pod.
package virtualnode

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
	"github.com/longshore-dev/longshore/host/kit/fair"
	"github.com/longshore-dev/longshore/host/kit/remotecluster"
)

const (
	// FieldManager owns the Deployments of virtual kubelets.
	FieldManager = "virtual-node-controller"
	// kubeconfigPoll is the requeue interval of a VirtualNode without a valid kubeconfig Secret.
	kubeconfigPoll = 5 * time.Second
	// drainPoll is the requeue interval of a draining node.
	drainPoll = time.Second
)

// readOnly lists VirtualNodes as they are in the cache, to look something up: each has a pod template.
const readOnly = client.UnsafeDisableDeepCopy

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

// SetupWithManager registers watches on VirtualNodes and on the objects created for them.
//
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=virtualnodes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=virtualnodes/status,verbs=patch
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=namespacemaps,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=core.liqo.io,resources=foreignclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterrolebindings;rolebindings,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles;roles,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,resourceNames=liqo-virtual-kubelet-local;longshore-virtual-kubelet-lease,verbs=bind
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;delete
// +kubebuilder:rbac:groups="",resources=pods/eviction,verbs=create
//
// The manager needs the following rights only to grant them to virtual kubelets (virtualkubelet.Rights).
// The rights on leases in kube-node-lease and on Secrets in tenant namespaces are in the chart.
//
// +kubebuilder:rbac:groups="",resources=nodes/status,verbs=patch
// +kubebuilder:rbac:groups=policy.longshore.dev,resources=policycomponents,verbs=create;patch
// +kubebuilder:rbac:groups="";events.k8s.io,resources=events,verbs=create;get;patch;update
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	kubelets := builder.WithPredicates(predicate.NewPredicateFuncs(func(obj client.Object) bool {
		labels := obj.GetLabels()
		return labels[offloadingv1beta1.ComponentLabel] == offloadingv1beta1.ComponentVirtualKubelet && labels[offloadingv1beta1.VirtualNodeLabel] != ""
	}))
	if err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { return startInformers(ctx, mgr.GetCache()) })); err != nil {
		return fmt.Errorf("adding informers: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("virtualnode").
		For(&offloadingv1beta1.VirtualNode{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&appsv1.Deployment{}, handler.EnqueueRequestsFromMapFunc(requestsForDeployment), kubelets).
		Watches(&offloadingv1beta1.NamespaceMap{}, handler.EnqueueRequestsFromMapFunc(r.requestsForCluster), builder.WithPredicates(onlyDeletions())).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.requestsForNode), builder.WithPredicates(nodeChanges())).
		Watches(&liqocorev1beta1.ForeignCluster{}, handler.EnqueueRequestsFromMapFunc(r.requestsForCluster), builder.WithPredicates(clusterChanges())).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.requestsForKubeconfig), builder.WithPredicates(predicate.ResourceVersionChangedPredicate{})).
		Watches(&offloadingv1beta1.VkOptionsTemplate{}, handler.EnqueueRequestsFromMapFunc(r.requestsForOptions), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(fair.Options(mgr.GetClient(), 1)).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
}

// onlyDeletions accepts deletion events.
func onlyDeletions() predicate.Predicate {
	never := predicate.NewPredicateFuncs(func(client.Object) bool { return false })
	never.DeleteFunc = nil
	return never
}

// requestsForDeployment returns a request for the VirtualNode of a Deployment.
func requestsForDeployment(_ context.Context, obj client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: obj.GetNamespace(), Name: obj.GetLabels()[offloadingv1beta1.VirtualNodeLabel]}}}
}

// requestsForKubeconfig returns requests for the VirtualNodes with a Secret, which holds their
// kubeconfig.
func (r *Reconciler) requestsForKubeconfig(ctx context.Context, obj client.Object) []reconcile.Request {
	list := &offloadingv1beta1.VirtualNodeList{}
	if err := r.Client.List(ctx, list, readOnly, client.InNamespace(obj.GetNamespace())); err != nil {
		// Listing from the cache fails only while the manager stops.
		ctrl.LoggerFrom(ctx).Error(err, "Listing VirtualNodes failed")
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if ref := list.Items[i].Spec.KubeconfigSecretRef; ref != nil && ref.Name == obj.GetName() {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}

// requestsForCluster returns requests for the VirtualNodes of the cluster of an object.
func (r *Reconciler) requestsForCluster(ctx context.Context, obj client.Object) []reconcile.Request {
	list := &offloadingv1beta1.VirtualNodeList{}
	if err := r.Client.List(ctx, list, readOnly); err != nil {
		// Listing from the cache fails only while the manager stops.
		ctrl.LoggerFrom(ctx).Error(err, "Listing VirtualNodes failed")
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if string(list.Items[i].Spec.ClusterID) == clusterOf(obj) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}

// Reconcile reconciles one VirtualNode.
func (r *Reconciler) Reconcile(ctx context.Context, vn *offloadingv1beta1.VirtualNode) (ctrl.Result, error) {
	if vn.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(vn, offloadingv1beta1.VirtualNodeFinalizer) {
		before := vn.DeepCopy()
		controllerutil.AddFinalizer(vn, offloadingv1beta1.VirtualNodeFinalizer)
		if err := r.Client.Patch(ctx, vn, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return ctrl.Result{}, fmt.Errorf("adding the finalizer to VirtualNode %s/%s: %w", vn.Namespace, vn.Name, err)
		}
	}
	before := vn.DeepCopy()
	hasChanged, err := r.followImage(ctx, vn)
	if hasChanged {
		return ctrl.Result{}, err // The change enqueues the VirtualNode.
	}
	var result ctrl.Result
	switch {
	case err != nil:
	case vn.DeletionTimestamp.IsZero():
		result, err = r.ensure(ctx, vn)
	default:
		result, err = r.withdraw(ctx, vn)
	}
	if err != nil {
		r.reportFailure(vn, err)
	}
	if !equality.Semantic.DeepEqual(before.Status, vn.Status) {
		if patchErr := r.Client.Status().Patch(ctx, vn, client.MergeFrom(before)); client.IgnoreNotFound(patchErr) != nil {
			return ctrl.Result{}, errors.Join(err, fmt.Errorf("writing the status of VirtualNode %s/%s: %w", vn.Namespace, vn.Name, patchErr))
		}
	}
	return result, err
}

// ensure creates and updates the objects of a VirtualNode that is not being deleted.
func (r *Reconciler) ensure(ctx context.Context, vn *offloadingv1beta1.VirtualNode) (ctrl.Result, error) {
	problem, err := r.checkPrerequisites(ctx, vn)
	if err == nil && problem == "" {
		problem, err = r.ensureRights(ctx, vn)
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	if problem != "" {
		r.reportProblem(vn, problem)
		return ctrl.Result{RequeueAfter: kubeconfigPoll}, nil
	}
	deployment, err := r.applyDeployment(ctx, vn)
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := errors.Join(r.ensureDisruptionBudget(ctx, deployment), r.ensureNetworkPolicy(ctx, deployment)); err != nil {
		return ctrl.Result{}, err
	}
	if problem, err = r.ensureNamespaceMap(ctx, vn); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.ensureNode(ctx, vn); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.reportConditions(ctx, vn, deployment); err != nil {
		return ctrl.Result{}, err
	}
	if problem != "" {
		r.setCondition(vn, offloadingv1beta1.VirtualKubeletConditionType, offloadingv1beta1.CreatingConditionStatusType, problem)
		return ctrl.Result{RequeueAfter: kubeconfigPoll}, nil
	}
	if vn.Spec.CreateNode != nil && !*vn.Spec.CreateNode {
		gone, err := r.removeNode(ctx, vn)
		if err != nil || !gone {
			return ctrl.Result{RequeueAfter: drainPoll}, err
		}
		r.setCondition(vn, offloadingv1beta1.NodeConditionType, offloadingv1beta1.NoneConditionStatusType, "")
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, r.uncordon(ctx, vn)
}

// reportProblem reports why the objects of a VirtualNode are left as they are.
func (r *Reconciler) reportProblem(vn *offloadingv1beta1.VirtualNode, problem string) {
	status := kubeletStatus(vn)
	r.setCondition(vn, offloadingv1beta1.VirtualKubeletConditionType, status, problem)
	if status != offloadingv1beta1.RunningConditionStatusType {
		r.Events.Eventf(vn, nil, corev1.EventTypeWarning, reasonNotReady, actionRun, "Virtual kubelet not started: %s", problem)
	}
}

// checkPrerequisites returns why the virtual kubelet cannot run yet as a message for the author
// of the VirtualNode, or "".
func (r *Reconciler) checkPrerequisites(ctx context.Context, vn *offloadingv1beta1.VirtualNode) (string, error) {
	if problem, err := NamespaceProblem(ctx, r.Client, vn); problem != "" || err != nil {
		return problem, err
	}
	if fc, err := r.foreignCluster(ctx, vn); err != nil {
		return "", err
	} else if fc == nil {
		return fmt.Sprintf("cluster %q has no ForeignCluster: peer with the cluster first", vn.Spec.ClusterID), nil
	}
	if vn.Spec.KubeconfigSecretRef == nil || vn.Spec.KubeconfigSecretRef.Name == "" {
		return "spec.kubeconfigSecretRef is not set: name the Secret with the provider's kubeconfig", nil
	}
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: vn.Namespace, Name: vn.Spec.KubeconfigSecretRef.Name}
	err := r.APIReader.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		return fmt.Sprintf("kubeconfig Secret %s does not exist", key), nil
	}
	if err != nil {
		return "", fmt.Errorf("reading kubeconfig Secret %s: %w", key, err)
	}
	if _, err := remotecluster.Config(secret, remotecluster.Limits{}); err != nil {
		return err.Error(), nil // The author of the VirtualNode must correct it.
	}
	if _, err := virtualkubelet.Deployment(vn); err != nil {
		return err.Error(), nil // The author of the VirtualNode must correct it.
	}
	return "", nil
}

func (r *Reconciler) foreignCluster(ctx context.Context, vn *offloadingv1beta1.VirtualNode) (*liqocorev1beta1.ForeignCluster, error) {
	list := &liqocorev1beta1.ForeignClusterList{}
	if err := r.Client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing ForeignClusters: %w", err)
	}
	for i := range list.Items {
		if clusterOf(&list.Items[i]) == string(vn.Spec.ClusterID) {
			return &list.Items[i], nil
		}
	}
	return nil, nil
}

// clusterOf returns the cluster ID of an object: of a ForeignCluster from the spec, because it
// may have no label, otherwise from the label.
func clusterOf(obj client.Object) string {
	if fc, ok := obj.(*liqocorev1beta1.ForeignCluster); ok && fc.Spec.ClusterID != "" {
		return string(fc.Spec.ClusterID)
	}
	return obj.GetLabels()[liqocorev1beta1.RemoteClusterIDLabel]
}

// ensureNamespaceMap creates the NamespaceMap of the provider. It returns a message if an
// existing NamespaceMap prevents that, or "".
func (r *Reconciler) ensureNamespaceMap(ctx context.Context, vn *offloadingv1beta1.VirtualNode) (string, error) {
	list, err := r.namespaceMaps(ctx, vn)
	if err != nil || len(list) > 0 {
		return "", errors.Join(err, r.recordNamespaceMapUser(ctx, vn, list))
	}
	nm := remote.NamespaceMap(string(vn.Spec.ClusterID), vn.Namespace)
	nm.AddVirtualNode(client.ObjectKeyFromObject(vn).String())
	err = r.Client.Create(ctx, nm)
	if !apierrors.IsAlreadyExists(err) {
		if err != nil {
			return "", fmt.Errorf("creating NamespaceMap %s/%s: %w", nm.Namespace, nm.Name, err)
		}
		return "", nil
	}
	existing := &offloadingv1beta1.NamespaceMap{}
	if err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(nm), existing); err != nil {
		return "", fmt.Errorf("reading NamespaceMap %s/%s: %w", nm.Namespace, nm.Name, err)
	}
	for _, key := range slices.Sorted(maps.Keys(nm.Labels)) {
		if existing.Labels[key] != nm.Labels[key] {
			return fmt.Sprintf("NamespaceMap %s/%s has no label %s=%s and is ignored: add the label or delete the NamespaceMap",
				nm.Namespace, nm.Name, key, nm.Labels[key]), nil
		}
	}
	return "", nil // The cache does not have it yet.
}

func (r *Reconciler) namespaceMaps(ctx context.Context, vn *offloadingv1beta1.VirtualNode) ([]offloadingv1beta1.NamespaceMap, error) {
	list := &offloadingv1beta1.NamespaceMapList{}
	err := r.Client.List(ctx, list, client.InNamespace(vn.Namespace), client.MatchingLabels{
		liqocorev1beta1.RemoteIDLabel: string(vn.Spec.ClusterID), liqocorev1beta1.ReplicationLabel: "true",
	})
	if err != nil {
		return nil, fmt.Errorf("listing NamespaceMaps of %q: %w", vn.Spec.ClusterID, err)
	}
	return list.Items, nil
}

// uidPrecondition prevents the deletion of a new object with the same name.
func uidPrecondition(obj metav1.Object) client.Preconditions {
	uid := obj.GetUID()
	return client.Preconditions{UID: &uid}
}
