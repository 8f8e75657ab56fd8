// Package namespacemap reconciles replicated NamespaceMaps on the provider: it creates and deletes
// the namespaces of a consumer, and the RoleBindings that give the consumer access to them.
//
// The consumer is that of the tenant namespace in which its NamespaceMap lies: only the provider can
// write the labels of that namespace. Labels of the NamespaceMap, and its status, decide nothing.
// A managed namespace is recognized by its metadata or by the consumer's RoleBinding in it. What
// is changed of the one is restored from the other. When both are gone, the provider has taken the
// namespace away. Namespaces that a changed status does not name are found by their annotation.
//
// Rights end before anything is deleted: a RoleBinding first loses its subjects, and stays as the record of
// what is to be withdrawn. They end with the NamespaceMap's deletion, whatever finalizers keep it, with the
// Tenant, and when the NamespaceMap is gone although its namespaces are not.
package namespacemap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/provider"
	kitevents "github.com/longshore-dev/longshore/host/kit/events"
	"github.com/longshore-dev/longshore/host/kit/fair"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// maxMessage is the maximum length of a message in the status, in bytes.
const maxMessage = 512

// errorPause is how soon the rest of a NamespaceMap is worked on when some of it has failed.
const errorPause = 5 * time.Second

// Event reasons and actions on the NamespaceMap.
const (
	reasonMappingFailed = "MappingFailed"
	reasonRestored      = "NamespaceRestored"
	reasonKept          = "NamespaceKept"
	actionMapNamespace  = "MapNamespace"
)

var (
	// errNotManaged is the error of a mapping to a namespace of the provider or of another
	// NamespaceMap.
	errNotManaged = errors.New("the namespace exists and is not managed by this NamespaceMap")
	// errShared is the error of a mapping to the remote namespace of another mapping.
	errShared = errors.New("two local namespaces cannot share a remote namespace")
	// errReserved is the error of a mapping to a name that the consumer may not use.
	errReserved = errors.New("the name is reserved by the provider")
	// errInvalidName is the error of a mapping to a name that no namespace can have.
	errInvalidName = errors.New("no namespace can have the name")
	// errTooMany is the error of a mapping of a consumer that has as many namespaces as it may have.
	errTooMany = errors.New("the provider gives this consumer no more namespaces: offload fewer, or ask the provider to raise provider.limits.namespaces")
	// errTooLarge is the error of a mapping of a NamespaceMap that has more than it may have.
	errTooLarge = fmt.Errorf("a NamespaceMap has at most %d mappings: offload fewer namespaces", offloadingv1beta1.MaxMappings)
	// errOther is the error of a mapping of a further NamespaceMap of a consumer.
	errOther = errors.New("a consumer has one NamespaceMap")
	// errCut is the error of a mapping on which the next pass, or that after an event, goes on.
	errCut = errors.New("left for the next pass")
	// errStale is the error of a reconcile with an outdated NamespaceMap.
	errStale = errors.New("the cache is stale")
	// errNoTenant is the error of a NamespaceMap outside of tenant namespaces: its consumer is
	// not known.
	errNoTenant = errors.New("not a tenant namespace of a cluster")
)

// Reconciler creates and deletes the namespaces of replicated NamespaceMaps.
type Reconciler struct {
	// Client reads from the manager's cache.
	Client client.Client
	// APIReader reads NamespaceMaps without a cache.
	APIReader client.Reader
	// Events records on the NamespaceMap.
	Events events.EventRecorder
	// ClusterID is this cluster's. A consumer's NamespaceMap has it as its name: others get no namespaces.
	ClusterID liqocorev1beta1.ClusterID
	// Names validates the names of namespaces.
	Names Names
	// Limits bound what a consumer has.
	Limits Limits
	// CustomCountsFrom is when ResourceQuotas begin to count custom resources. It is read only if Limits have such
	// counts.
	CustomCountsFrom time.Time
	Clock            clock.PassiveClock
	// Retain keeps the data that must outlive a namespace, which is deleted only afterwards. It may
	// be nil.
	Retain func(ctx context.Context, namespace string) error
}

// SetupWithManager registers watches on replicated NamespaceMaps, and on their namespaces,
// RoleBindings and ResourceQuotas.
//
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=namespacemaps,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=namespacemaps/status,verbs=patch
// +kubebuilder:rbac:groups=authentication.liqo.io,resources=tenants,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=resourcequotas,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=rolebindings,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,resourceNames=liqo-virtual-kubelet-remote,verbs=bind
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("namespacemap-provider").
		For(&offloadingv1beta1.NamespaceMap{}, builder.WithPredicates(isOrWas(isConcerned))).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(requestForOwner), builder.WithPredicates(isOrWas(isAnnotated))).
		Watches(&rbacv1.RoleBinding{}, handler.EnqueueRequestsFromMapFunc(requestForOwner), builder.WithPredicates(isOrWas(isAnnotated))).
		Watches(&corev1.ResourceQuota{}, handler.EnqueueRequestsFromMapFunc(requestForOwner), builder.WithPredicates(quotaChanges())).
		Watches(&authv1beta1.Tenant{}, handler.EnqueueRequestsFromMapFunc(r.requestsOfTenant), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(fair.Options(mgr.GetClient(), 1)).
		Complete(reconcile.Func(r.reconcileRequest))
}

// isOrWas accepts objects for which a condition is true, or was before an update.
func isOrWas(condition func(client.Object) bool) predicate.Predicate {
	all := predicate.NewPredicateFuncs(condition)
	return predicate.Funcs{
		CreateFunc: all.Create, DeleteFunc: all.Delete, GenericFunc: all.Generic,
		UpdateFunc: func(e event.UpdateEvent) bool { return condition(e.ObjectOld) || condition(e.ObjectNew) },
	}
}

// isAnnotated reports whether an object has the annotation with its NamespaceMap.
func isAnnotated(obj client.Object) bool {
	_, ok := obj.GetAnnotations()[offloadingv1beta1.ManagedByNamespaceMapAnnotation]
	return ok
}

// isConcerned reports whether this controller reconciles a NamespaceMap: a consumer replicated it,
// or it has the finalizer although its labels have changed.
func isConcerned(obj client.Object) bool {
	return isReplicated(obj) ||
		controllerutil.ContainsFinalizer(obj, offloadingv1beta1.NamespaceMapFinalizer) && !liqocorev1beta1.IsOwn(obj)
}

func isReplicated(obj client.Object) bool {
	labels := obj.GetLabels()
	return labels[liqocorev1beta1.OriginIDLabel] != "" && labels[liqocorev1beta1.ReplicatedLabel] == "true"
}

// requestForOwner returns a request for the NamespaceMap in the annotation of an object.
func requestForOwner(_ context.Context, obj client.Object) []reconcile.Request {
	namespace, name, ok := splitOwner(obj.GetAnnotations()[offloadingv1beta1.ManagedByNamespaceMapAnnotation])
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: namespace, Name: name}}}
}

// requestsOfTenant returns requests for the NamespaceMaps in the namespace of a Tenant.
func (r *Reconciler) requestsOfTenant(ctx context.Context, tenant client.Object) []reconcile.Request {
	list := &offloadingv1beta1.NamespaceMapList{}
	if err := r.Client.List(ctx, list, client.InNamespace(tenant.GetNamespace())); err != nil {
		// Listing from the cache fails only while the manager stops.
		ctrl.LoggerFrom(ctx).Error(err, "Listing NamespaceMaps failed")
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// reconcileRequest reconciles a NamespaceMap, or ends the rights that were given for one which is gone:
// its finalizer was removed while its namespaces exist. The namespaces stay with their data, as after
// NamespaceMaps were lost by mistake, and get their rights back from a NamespaceMap of the same name.
func (r *Reconciler) reconcileRequest(ctx context.Context, request reconcile.Request) (ctrl.Result, error) {
	nm := &offloadingv1beta1.NamespaceMap{}
	err := r.Client.Get(ctx, request.NamespacedName, nm)
	if err == nil && isConcerned(nm) {
		return r.Reconcile(ctx, nm)
	}
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("reading NamespaceMap %s: %w", request, err)
	}
	bindings := &rbacv1.RoleBindingList{}
	if err := r.Client.List(ctx, bindings); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing RoleBindings: %w", err)
	}
	var errs []error
	for i := range bindings.Items {
		binding := &bindings.Items[i]
		if binding.RoleRef.Name == provider.NamespaceRole && binding.Annotations[offloadingv1beta1.ManagedByNamespaceMapAnnotation] == request.String() && len(binding.Subjects) > 0 {
			ctrl.LoggerFrom(ctx).Info("NamespaceMap is gone, ending the consumer's access", "namespace", binding.Namespace)
			errs = append(errs, authentication.EndAccess(ctx, r.Client, binding))
		}
	}
	return ctrl.Result{}, errors.Join(errs...)
}

// Reconcile reconciles one NamespaceMap.
func (r *Reconciler) Reconcile(ctx context.Context, nm *offloadingv1beta1.NamespaceMap) (ctrl.Result, error) {
	if !isConcerned(nm) {
		return ctrl.Result{}, nil
	}
	if nm.DeletionTimestamp.IsZero() && controllerutil.AddFinalizer(nm, offloadingv1beta1.NamespaceMapFinalizer) {
		if err := r.Client.Update(ctx, nm); err != nil {
			return ctrl.Result{}, fmt.Errorf("adding the finalizer to NamespaceMap %s: %w", provider.Owner(nm), err)
		}
		return ctrl.Result{}, nil
	}
	before := nm.DeepCopy()
	if nm.Status.CurrentMapping == nil {
		nm.Status.CurrentMapping = map[string]offloadingv1beta1.RemoteNamespaceStatus{}
	}
	p := r.newPass(ctx, nm)
	desired, err := p.desired(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	left := 0
	if err = p.err; err == nil {
		left, err = p.remove(ctx, desired)
	}
	err = errors.Join(err, r.ensure(ctx, p, desired))
	if writeErr := r.writeStatus(ctx, before, nm); writeErr != nil {
		return ctrl.Result{}, errors.Join(err, writeErr)
	}
	if p.isCut {
		return ctrl.Result{RequeueAfter: pauseAfter(ctx, err)}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	if p.waits {
		return ctrl.Result{RequeueAfter: p.freeAfter}, nil
	}
	if nm.DeletionTimestamp.IsZero() || left > 0 || len(nm.Status.CurrentMapping) > 0 {
		return ctrl.Result{RequeueAfter: r.untilCustomCounts()}, nil
	}
	return ctrl.Result{}, r.removeFinalizer(ctx, nm)
}

func (r *Reconciler) writeStatus(ctx context.Context, before, nm *offloadingv1beta1.NamespaceMap) error {
	if equality.Semantic.DeepEqual(before.Status, nm.Status) {
		return nil
	}
	if err := r.Client.Status().Patch(ctx, nm, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of NamespaceMap %s: %w", provider.Owner(nm), err)
	}
	return nil
}

// pauseAfter returns when a pass goes on. The queue serves other consumers first. An error of one mapping
// does not slow down the others.
func pauseAfter(ctx context.Context, err error) time.Duration {
	if err == nil {
		return time.Millisecond
	}
	ctrl.LoggerFrom(ctx).Error(err, "Some namespaces failed, the rest follows")
	return errorPause
}

// removeFinalizer removes the finalizer of a NamespaceMap.
func (r *Reconciler) removeFinalizer(ctx context.Context, nm *offloadingv1beta1.NamespaceMap) error {
	if !controllerutil.RemoveFinalizer(nm, offloadingv1beta1.NamespaceMapFinalizer) {
		return nil
	}
	if err := r.Client.Update(ctx, nm); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizer of NamespaceMap %s: %w", provider.Owner(nm), err)
	}
	return nil
}

// newPass returns a pass with the consumer of a NamespaceMap.
func (r *Reconciler) newPass(ctx context.Context, nm *offloadingv1beta1.NamespaceMap) *pass {
	p := &pass{r: r, nm: nm, left: portion}
	tenant := &corev1.Namespace{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: nm.Namespace}, tenant); err != nil {
		p.err = fmt.Errorf("reading tenant namespace %q: %w", nm.Namespace, err)
		return p
	}
	if p.origin, p.err = Consumer(tenant); p.err != nil {
		return p
	}
	owned, err := p.namespaces(ctx)
	p.owned, p.err = p.countEnding(owned), errors.Join(err, p.readQuotas(ctx))
	return p
}

// isEnded reports whether a NamespaceMap gives no rights any more: it is being deleted, or all Tenants of
// its consumer are drained or being deleted. After a peering by hand there is no Tenant.
func (p *pass) isEnded(ctx context.Context) (bool, error) {
	if !p.nm.DeletionTimestamp.IsZero() {
		return true, nil
	}
	tenants := &authv1beta1.TenantList{}
	if err := p.r.Client.List(ctx, tenants, client.InNamespace(p.nm.Namespace)); err != nil {
		return false, fmt.Errorf("listing Tenants of namespace %q: %w", p.nm.Namespace, err)
	}
	ended := false
	for i := range tenants.Items {
		tenant := &tenants.Items[i]
		switch {
		case string(tenant.Spec.ClusterID) != p.origin:
		case tenant.DeletionTimestamp.IsZero() && tenant.Spec.TenantCondition != authv1beta1.TenantConditionDrained:
			return false, nil
		default:
			ended = true
		}
	}
	return ended, nil
}

// desired returns the mappings that give rights: none if the NamespaceMap has ended.
func (p *pass) desired(ctx context.Context) (map[string]string, error) {
	if ended, err := p.isEnded(ctx); ended || err != nil {
		return nil, err
	}
	return p.nm.Spec.DesiredMapping, nil
}

// ensure creates every desired namespace and its RoleBinding. An error of one mapping does not
// prevent the others.
func (r *Reconciler) ensure(ctx context.Context, p *pass, desired map[string]string) error {
	conflicts := Conflicts(desired, p.nm.Status.CurrentMapping)
	var errs []error
	defer p.reportFailures()
	for i, local := range p.order(desired) {
		if p.isFull(local) {
			continue // There is no place to say what becomes of it.
		}
		err := conflicts[local]
		if err == nil && i >= offloadingv1beta1.MaxMappings && !p.nm.Status.CurrentMapping[local].IsAccepted() {
			err = errTooLarge
		}
		if err == nil {
			err = p.ensureOne(ctx, local, desired[local])
		}
		if errors.Is(err, errCut) || err != nil && p.isFullOfFailures(local) {
			continue
		}
		errs = append(errs, p.recordResult(local, desired[local], err))
	}
	return errors.Join(errs...)
}

// order returns the local namespaces in the order in which a pass works on them: those that have a namespace come
// first, and those that failed before do not keep the others from their turn.
func (p *pass) order(desired map[string]string) []string {
	turn := func(local string) int {
		switch p.nm.Status.CurrentMapping[local].Phase {
		case offloadingv1beta1.MappingAccepted:
			return 0
		case offloadingv1beta1.MappingCreationLoopBackOff:
			return 2
		default:
			return 1
		}
	}
	return slices.SortedFunc(maps.Keys(desired), func(a, b string) int {
		return cmp.Or(cmp.Compare(turn(a), turn(b)), cmp.Compare(a, b))
	})
}

// recordResult sets the status of one mapping. It returns the error if a retry can help. A
// transient error does not replace the phase Accepted, so that a failing request does not stop
// running pods.
func (p *pass) recordResult(local, remote string, err error) error {
	current, known := p.nm.Status.CurrentMapping[local]
	accepted := known && current.Phase == offloadingv1beta1.MappingAccepted
	var terminating *terminatingError
	status := offloadingv1beta1.RemoteNamespaceStatus{RemoteNamespace: remote, Phase: offloadingv1beta1.MappingAccepted}
	switch {
	case err == nil:
	case errors.As(err, &terminating):
		status.Message = kitevents.Cut(err.Error(), maxMessage)
		if !accepted {
			status.Phase, status.Message = offloadingv1beta1.MappingTerminating, kitevents.Cut(terminating.held, maxMessage)
		}
		err = nil
	case accepted && isTransient(err):
		return err
	default:
		status.Phase, status.Message = offloadingv1beta1.MappingCreationLoopBackOff, kitevents.Cut(err.Error(), maxMessage)
		if status != current {
			p.failures = append(p.failures, fmt.Sprintf("Failed to create namespace %q for local namespace %q: %v", remote, local, err))
		}
		if needsChange(err) {
			err = nil
		}
	}
	p.nm.Status.CurrentMapping[local] = status
	return err
}

// reportFailures records what has failed in one event: the consumer says how many mappings there are. The status has
// the rest.
func (p *pass) reportFailures() {
	others := ""
	switch len(p.failures) {
	case 0:
		return
	case 1:
	default:
		others = fmt.Sprintf(" (and %d more, see the status)", len(p.failures)-1)
	}
	p.r.Events.Eventf(p.nm, nil, corev1.EventTypeWarning, reasonMappingFailed, actionMapNamespace, "%s%s", kitevents.Cut(p.failures[0], maxMessage), others)
}

// terminatingError is the error of a mapping to a namespace that is being deleted. held is what keeps it.
type terminatingError struct{ held string }

// terminating returns the error of a mapping to a namespace that is being deleted.
func (p *pass) terminating(ctx context.Context, remote string) error {
	held, err := p.heldBy(ctx, remote)
	if err != nil {
		return err
	}
	return &terminatingError{held}
}

func (e *terminatingError) Error() string {
	return strings.TrimSpace("The namespace is being deleted, and is created again when it is gone. " + e.held)
}

// needsChange reports whether only another mapping, or the end of one, helps. Both cause an event.
func needsChange(err error) bool {
	return errors.Is(err, errShared) || errors.Is(err, errReserved) || errors.Is(err, errInvalidName) || errors.Is(err, errTooMany) ||
		errors.Is(err, errTooLarge) || errors.Is(err, errOther)
}

func isTransient(err error) bool {
	return !errors.Is(err, errNotManaged) && !needsChange(err) && !apierrors.IsInvalid(err)
}
