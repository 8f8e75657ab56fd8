// Package namespaceoffloading reconciles NamespaceOffloadings: it writes the namespace into the
// NamespaceMaps of the selected providers and reports their state.
package namespaceoffloading

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
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

// Event reasons and actions on the NamespaceOffloading.
const (
	reasonInvalid   = "Invalid"
	reasonFull      = "NamespaceMapFull"
	reasonHeld      = "RemoteFinalizers"
	actionWithdraw  = "Withdraw"
	actionOffload   = "Offload"
	schedulingValue = "true"
)

// Reconciler offloads namespaces.
type Reconciler struct {
	// Client reads from the manager's cache.
	Client client.Client
	// APIReader lists the pods that do not follow the strategy, which are not cached.
	APIReader client.Reader
	// Events records on the NamespaceOffloading, and on these pods.
	Events events.EventRecorder
	// Clock is the time source of conditions.
	Clock clock.PassiveClock
	// ClusterID is the own cluster's identity.
	ClusterID string
}

// SetupWithManager registers watches on everything that a selection depends on.
//
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=namespaceoffloadings,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=namespaceoffloadings/status,verbs=patch
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=namespacemaps,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=virtualnodes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=list
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	all := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request { return r.all(ctx) })
	virtual := predicate.NewPredicateFuncs(func(obj client.Object) bool {
		return obj.GetLabels()[offloadingv1beta1.NodeTypeLabel] == offloadingv1beta1.NodeTypeVirtual
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("namespaceoffloading").
		For(&offloadingv1beta1.NamespaceOffloading{}, builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&offloadingv1beta1.NamespaceMap{}, HandleMappings(request, r.all)).
		Watches(&offloadingv1beta1.VirtualNode{}, all, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		// Labels mark namespaces for scheduling, and tenant namespaces.
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.relatedToNamespace), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Watches(&corev1.Node{}, all, builder.WithPredicates(virtual, predicate.LabelChangedPredicate{})).
		WithOptions(controller.Options{RateLimiter: retry.Limiter[reconcile.Request]()}).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
}

// request returns the request for the NamespaceOffloading that a namespace may have.
func request(namespace string) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: offloadingv1beta1.NamespaceOffloadingName}}
}

func (r *Reconciler) all(ctx context.Context) []reconcile.Request {
	list := &offloadingv1beta1.NamespaceOffloadingList{}
	if err := r.Client.List(ctx, list); err != nil {
		// Listing from the cache fails only while the manager stops.
		ctrl.LoggerFrom(ctx).Error(err, "Listing NamespaceOffloadings failed")
		return nil
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// relatedToNamespace returns requests for the NamespaceOffloading that a namespace may have, or
// for all when it is a tenant namespace.
func (r *Reconciler) relatedToNamespace(ctx context.Context, namespace client.Object) []reconcile.Request {
	if _, isTenant := namespace.GetLabels()[liqocorev1beta1.TenantNamespaceLabel]; isTenant {
		return r.all(ctx)
	}
	return []reconcile.Request{request(namespace.GetName())}
}

// scope is the state that one reconcile works on.
type scope struct {
	nso          *offloadingv1beta1.NamespaceOffloading
	remoteName   string
	virtualNodes []offloadingv1beta1.VirtualNode
	nodes        map[string]*corev1.Node
	// maps are the NamespaceMaps in tenant namespaces, by provider cluster.
	maps map[string]*offloadingv1beta1.NamespaceMap
	// missing are the selected providers without a NamespaceMap; enforce sets it.
	missing []string
	// holds are the mappings that are kept although no virtual node matches, by provider
	// cluster; enforce sets it.
	holds map[string]*Hold
}

// Reconcile brings mappings, scheduling label and status in line with one
// NamespaceOffloading.
func (r *Reconciler) Reconcile(ctx context.Context, nso *offloadingv1beta1.NamespaceOffloading) (ctrl.Result, error) {
	if nso.Name != offloadingv1beta1.NamespaceOffloadingName {
		return ctrl.Result{}, nil
	}
	if nso.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(nso, offloadingv1beta1.NamespaceOffloadingFinalizer) {
		before := nso.DeepCopy()
		controllerutil.AddFinalizer(nso, offloadingv1beta1.NamespaceOffloadingFinalizer)
		if err := r.Client.Patch(ctx, nso, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return ctrl.Result{}, fmt.Errorf("adding the finalizer to the NamespaceOffloading of %q: %w", nso.Namespace, err)
		}
	}
	s, err := r.gather(ctx, nso)
	if err != nil {
		return ctrl.Result{}, err
	}
	before := nso.DeepCopy()
	err = r.enforce(ctx, s)
	nso.Status = Status(nso, s.remoteName, s.maps, s.missing, s.holds, metav1.NewTime(r.Clock.Now()))
	if err != nil {
		nso.Status.ObservedGeneration = before.Status.ObservedGeneration // The spec is not enforced yet.
	}
	again, pods, countErr := r.countPods(ctx, s)
	err = errors.Join(err, countErr)
	if !equality.Semantic.DeepEqual(before.Status, nso.Status) {
		if patchErr := r.Client.Status().Patch(ctx, nso, client.MergeFrom(before)); client.IgnoreNotFound(patchErr) != nil {
			// A failed status write must not hide the other error.
			return ctrl.Result{}, errors.Join(err, fmt.Errorf("writing the status of the NamespaceOffloading of %q: %w", nso.Namespace, patchErr))
		}
		r.reportHeld(s)
		r.reportPlacement(&before.Status, nso, pods)
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	if !nso.DeletionTimestamp.IsZero() && len(nso.Status.RemoteNamespacesConditions) == 0 {
		return ctrl.Result{}, r.removeFinalizer(ctx, nso)
	}
	return ctrl.Result{RequeueAfter: earlier(again, s.nextWithdrawal())}, nil
}

// reportHeld says on a NamespaceOffloading that is being deleted what it waits for, as far as its providers say.
// The status has it, too, which few users read then.
func (r *Reconciler) reportHeld(s *scope) {
	if s.nso.DeletionTimestamp.IsZero() {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(s.maps)) {
		current := s.maps[id].Status.CurrentMapping[s.nso.Namespace]
		if current.Phase == offloadingv1beta1.MappingTerminating && current.Message != "" {
			r.Events.Eventf(s.nso, nil, corev1.EventTypeWarning, reasonHeld, actionWithdraw, "%s", terminatingMessage(&current, s.maps[id].Name))
		}
	}
}

// nextWithdrawal returns the time until the first mapping is withdrawn, or zero.
func (s *scope) nextWithdrawal() time.Duration {
	var next time.Duration
	for _, hold := range s.holds {
		next = earlier(next, hold.Remaining)
	}
	return next
}

// earlier returns the shorter of two times, of which those that are not positive do not count.
func earlier(a, b time.Duration) time.Duration {
	if a <= 0 || b > 0 && b < a {
		return max(b, 0)
	}
	return a
}

func (r *Reconciler) removeFinalizer(ctx context.Context, nso *offloadingv1beta1.NamespaceOffloading) error {
	before := nso.DeepCopy()
	if !controllerutil.RemoveFinalizer(nso, offloadingv1beta1.NamespaceOffloadingFinalizer) {
		return nil
	}
	err := r.Client.Patch(ctx, nso, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizer of the NamespaceOffloading of %q: %w", nso.Namespace, err)
	}
	return nil
}

// gather reads the state that the reconcile works on.
func (r *Reconciler) gather(ctx context.Context, nso *offloadingv1beta1.NamespaceOffloading) (*scope, error) {
	s := &scope{
		nso: nso, remoteName: RemoteName(nso.Namespace, &nso.Spec, r.ClusterID),
		nodes: map[string]*corev1.Node{}, maps: map[string]*offloadingv1beta1.NamespaceMap{}, holds: map[string]*Hold{},
	}
	virtualNodes := &offloadingv1beta1.VirtualNodeList{}
	if err := r.Client.List(ctx, virtualNodes); err != nil {
		return nil, fmt.Errorf("listing VirtualNodes: %w", err)
	}
	s.virtualNodes = virtualNodes.Items
	nodes := &corev1.NodeList{}
	if err := r.Client.List(ctx, nodes, client.MatchingLabels{offloadingv1beta1.NodeTypeLabel: offloadingv1beta1.NodeTypeVirtual}); err != nil {
		return nil, fmt.Errorf("listing virtual nodes: %w", err)
	}
	for i := range nodes.Items {
		s.nodes[nodes.Items[i].Name] = &nodes.Items[i]
	}
	return s, r.gatherNamespaceMaps(ctx, s)
}

// gatherNamespaceMaps reads the oldest NamespaceMap in the tenant namespace of each cluster.
// Others do not count: users can create NamespaceMaps in their own namespaces.
func (r *Reconciler) gatherNamespaceMaps(ctx context.Context, s *scope) error {
	list := &offloadingv1beta1.NamespaceMapList{}
	if err := r.Client.List(ctx, list, client.MatchingLabels{liqocorev1beta1.ReplicationLabel: "true"}); err != nil {
		return fmt.Errorf("listing NamespaceMaps: %w", err)
	}
	for i := range list.Items {
		nm := &list.Items[i]
		id := nm.Labels[liqocorev1beta1.RemoteIDLabel]
		namespace := &corev1.Namespace{}
		err := r.Client.Get(ctx, client.ObjectKey{Name: nm.Namespace}, namespace)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading namespace %q: %w", nm.Namespace, err)
		}
		if err != nil || !liqocorev1beta1.IsTenantNamespace(namespace, liqocorev1beta1.ClusterID(id)) {
			continue
		}
		if current := s.maps[id]; current == nil || compareAge(nm, current) < 0 {
			s.maps[id] = nm
		}
	}
	return nil
}

// compareAge orders objects by creation time, and by name for equal times.
func compareAge(a, b client.Object) int {
	return cmp.Or(a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time),
		cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
}

// enforce writes the mappings first and the scheduling label last: pods must not be
// scheduled to a virtual node before their namespace is mapped.
func (r *Reconciler) enforce(ctx context.Context, s *scope) error {
	selected := map[string]bool{}
	if s.nso.DeletionTimestamp.IsZero() {
		var err error
		if selected, err = s.selectClusters(r.Clock.Now()); err != nil {
			r.Events.Eventf(s.nso, nil, corev1.EventTypeWarning, reasonInvalid, actionOffload, "Not offloaded: %v", err)
			return reconcile.TerminalError(err)
		}
	} else if err := r.labelNamespace(ctx, s.nso, false); err != nil {
		return err
	}
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(selected)) {
		if selected[id] && s.maps[id] == nil {
			// The creation of the NamespaceMap causes another reconcile. Other providers do not
			// wait for it.
			s.missing = append(s.missing, id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.maps)) {
		errs = append(errs, r.writeMapping(ctx, s, s.maps[id], selected[id]))
	}
	if err := errors.Join(errs...); err != nil || !s.nso.DeletionTimestamp.IsZero() {
		return err
	}
	return r.labelNamespace(ctx, s.nso, s.nso.Spec.PodOffloadingStrategy != offloadingv1beta1.LocalPodOffloadingStrategyType)
}

// selectClusters returns the clusters that the namespace is mapped to: those that the
// selector matches, and those whose mapping is kept.
func (s *scope) selectClusters(now time.Time) (map[string]bool, error) {
	selector := &s.nso.Spec.ClusterSelector
	selected, err := Selected(selector, s.virtualNodes, s.nodes)
	if err != nil {
		return nil, err
	}
	expected, err := Selected(selector, s.virtualNodes, nil)
	if err != nil {
		return nil, err
	}
	for id, nm := range s.maps {
		if _, mapped := nm.Spec.DesiredMapping[s.nso.Namespace]; !mapped || selected[id] {
			continue
		}
		hold, keep := Retain(s.nso, nm, id, s.virtualNodes, expected[id], now)
		selected[id] = keep
		if hold != nil {
			s.holds[id] = hold
		}
	}
	return selected, nil
}

// writeMapping adds or removes one mapping. Removing needs an optimistic lock: the patch for
// the last mapping removes the whole field, with mappings that were added concurrently.
func (r *Reconciler) writeMapping(ctx context.Context, s *scope, nm *offloadingv1beta1.NamespaceMap, desired bool) error {
	current, present := nm.Spec.DesiredMapping[s.nso.Namespace]
	if present == desired && (!desired || current == s.remoteName) {
		return nil
	}
	if desired && !present && len(nm.Spec.DesiredMapping) >= offloadingv1beta1.MaxMappings {
		err := fmt.Errorf("NamespaceMap %s/%s has %d namespaces, the most that one provider gets: offload fewer to it", nm.Namespace, nm.Name, len(nm.Spec.DesiredMapping))
		r.Events.Eventf(s.nso, nil, corev1.EventTypeWarning, reasonFull, actionOffload, "Not offloaded: %v", err)
		return err
	}
	before := nm.DeepCopy()
	patch := client.MergeFrom(before)
	if desired {
		if nm.Spec.DesiredMapping == nil {
			nm.Spec.DesiredMapping = map[string]string{}
		}
		nm.Spec.DesiredMapping[s.nso.Namespace] = s.remoteName
	} else {
		delete(nm.Spec.DesiredMapping, s.nso.Namespace)
		patch = client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	}
	if err := r.Client.Patch(ctx, nm, patch); err != nil {
		return fmt.Errorf("mapping namespace %q in NamespaceMap %s/%s: %w", s.nso.Namespace, nm.Namespace, nm.Name, err)
	}
	return nil
}

// labelNamespace adds or removes the label that enables the pod webhook for the namespace.
func (r *Reconciler) labelNamespace(ctx context.Context, nso *offloadingv1beta1.NamespaceOffloading, on bool) error {
	namespace := &corev1.Namespace{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: nso.Namespace}, namespace); err != nil {
		if client.IgnoreNotFound(err) == nil && !nso.DeletionTimestamp.IsZero() {
			return nil
		}
		return fmt.Errorf("reading namespace %q: %w", nso.Namespace, err)
	}
	if (namespace.Labels[offloadingv1beta1.SchedulingEnabledLabel] == schedulingValue) == on {
		return nil
	}
	before := namespace.DeepCopy()
	if on {
		if namespace.Labels == nil {
			namespace.Labels = map[string]string{}
		}
		namespace.Labels[offloadingv1beta1.SchedulingEnabledLabel] = schedulingValue
	} else {
		delete(namespace.Labels, offloadingv1beta1.SchedulingEnabledLabel)
	}
	if err := r.Client.Patch(ctx, namespace, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("labeling namespace %q: %w", nso.Namespace, err)
	}
	return nil
}
