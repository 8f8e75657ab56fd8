// Package replication copies custom resources of a list of kinds from a consumer to its providers,
// and their status back. Replication to a provider is configured by the control-plane
// kubeconfig Secret in its tenant namespace, which also maps the namespace. Names are kept.
package replication

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/remotecluster"
	"github.com/longshore-dev/longshore/host/kit/retry"
)

const (
	// stopPoll is the requeue interval of a Secret that is being deleted.
	stopPoll = 2 * time.Second

	reasonInvalidKubeconfig = "InvalidKubeconfig"
	reasonNotReplicated     = "NotReplicated"
	reasonKubeconfigInUse   = "KubeconfigInUse"
	actionReplicate         = "Replicate"
)

// Options configures a Reconciler.
type Options struct {
	// ClusterID is the own cluster's identity.
	ClusterID string
	// Resources are the kinds to replicate.
	Resources []schema.GroupVersionResource
	// Resync is how often every object is replicated again; zero is never.
	Resync time.Duration
	// Local is the client of the local cluster.
	Local dynamic.Interface
	// Connect creates a client of a provider.
	Connect func(*rest.Config) (dynamic.Interface, error)
	Now     func() time.Time
}

// Reconciler runs one reflector per control-plane kubeconfig Secret.
type Reconciler struct {
	// Client reads from the manager's cache, which needs tenant namespaces and their Secrets only:
	// a Secret without the labels of a control-plane kubeconfig may have had them.
	Client client.Client
	// Events records on Secrets and on replicated objects.
	Events events.EventRecorder
	// Options configures the reflectors.
	Options Options

	mu      sync.Mutex
	base    context.Context // The context of Start.
	running map[client.ObjectKey]*session
	// locals are there while a reflector runs.
	locals *locals
	// released are the resource versions of Secrets whose finalizer was removed from them. The
	// cache may have such a version a moment longer.
	released map[client.ObjectKey]string
}

// session is a running reflector and the content of its Secret.
type session struct {
	content   [sha256.Size]byte
	reflector *reflector
	cancel    context.CancelFunc
	done      chan struct{}
}

// SetupWithManager registers watches on control-plane kubeconfig Secrets, on tenant namespaces and on
// ForeignClusters. The rights on Secrets are those of package tenantnamespace.
//
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=core.liqo.io,resources=foreignclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=authentication.liqo.io,resources=identities,verbs=get
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=namespacemaps,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=namespacemaps/status,verbs=update
// +kubebuilder:rbac:groups=authentication.liqo.io,resources=resourceslices;renews,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=authentication.liqo.io,resources=resourceslices/status;renews/status,verbs=update
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.running, r.released = map[client.ObjectKey]*session{}, map[client.ObjectKey]string{}
	if err := mgr.Add(r); err != nil {
		return fmt.Errorf("registering the replicator: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("replication").
		For(&corev1.Secret{}, builder.WithPredicates(isConcerned())).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.related), builder.WithPredicates(isConcerned())).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.related), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Watches(&liqocorev1beta1.ForeignCluster{}, r.lossHandler()).
		WithOptions(controller.Options{RateLimiter: retry.Limiter[reconcile.Request]()}).
		Complete(reconcile.Func(r.reconcileKey))
}

// lossHandler replicates the objects of a cluster again that is lost, or is not lost any more: nothing
// is sent to a cluster while it counts as lost.
func (r *Reconciler) lossHandler() handler.Funcs {
	isLost := func(object client.Object) bool {
		fc, ok := object.(*liqocorev1beta1.ForeignCluster)
		return ok && fc.PermanentlyUnreachable()
	}
	replicateAgain := func(object client.Object) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if fc, ok := object.(*liqocorev1beta1.ForeignCluster); ok && r.locals != nil {
			r.locals.replicateAgain(string(fc.Spec.ClusterID))
		}
	}
	return handler.Funcs{
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if isLost(e.ObjectOld) != isLost(e.ObjectNew) {
				replicateAgain(e.ObjectNew)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if isLost(e.Object) {
				replicateAgain(e.Object)
			}
		},
	}
}

// isConcerned accepts Secrets that are control-plane kubeconfigs, or were before an update or the
// start.
func isConcerned() predicate.Predicate {
	concerns := func(object client.Object) bool {
		return isControlPlaneKubeconfig(object) || controllerutil.ContainsFinalizer(object, liqocorev1beta1.ReplicatorSecretFinalizer)
	}
	p := predicate.NewPredicateFuncs(concerns)
	p.UpdateFunc = func(e event.UpdateEvent) bool { return concerns(e.ObjectOld) || concerns(e.ObjectNew) }
	return p
}

// reconcileKey reads and reconciles a Secret. The reflector of a Secret that does not exist any more
// is stopped: an administrator who removes the finalizer revokes the credential.
func (r *Reconciler) reconcileKey(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	secret := &corev1.Secret{}
	err := r.Client.Get(ctx, request.NamespacedName, secret)
	if apierrors.IsNotFound(err) {
		r.stop(request.NamespacedName)
		r.setReleased(request.NamespacedName, "")
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading Secret %s: %w", request, err)
	}
	if r.isReleased(secret) {
		return ctrl.Result{}, nil // The cache is stale: the event of the release, or of the deletion, follows.
	}
	return r.Reconcile(ctx, secret)
}

// Start implements manager.Runnable. Reflectors run until its context ends; it waits for them.
func (r *Reconciler) Start(ctx context.Context) error {
	r.mu.Lock()
	r.base = ctx
	r.mu.Unlock()
	<-ctx.Done()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.running {
		<-s.done
	}
	if r.locals != nil {
		r.locals.stop()
	}
	return nil
}

// Reconcile starts, restarts or stops the reflector of one kubeconfig Secret.
func (r *Reconciler) Reconcile(ctx context.Context, secret *corev1.Secret) (ctrl.Result, error) {
	name := client.ObjectKeyFromObject(secret)
	if !isControlPlaneKubeconfig(secret) {
		r.stop(name)
		return ctrl.Result{}, r.release(ctx, secret)
	}
	conflict, err := r.checkSelected(ctx, secret)
	if err != nil {
		return ctrl.Result{}, err
	}
	if conflict != "" {
		r.stop(name)
		r.Events.Eventf(secret, nil, corev1.EventTypeWarning, reasonNotReplicated, actionReplicate, "%s", conflict)
	}
	if !secret.DeletionTimestamp.IsZero() {
		return r.withdraw(ctx, name, secret, conflict == "")
	}
	if conflict != "" {
		return ctrl.Result{}, r.releaseUnused(ctx, secret)
	}
	if controllerutil.AddFinalizer(secret, liqocorev1beta1.ReplicatorSecretFinalizer) {
		before := secret.DeepCopy()
		controllerutil.RemoveFinalizer(before, liqocorev1beta1.ReplicatorSecretFinalizer)
		if err := r.Client.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return ctrl.Result{}, fmt.Errorf("adding the finalizer to Secret %s: %w", name, err)
		}
	}
	return r.ensureRunning(ctx, name, secret)
}

func contentOf(secret *corev1.Secret) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s", secret.Labels[liqocorev1beta1.RemoteClusterIDLabel],
		secret.Annotations[authv1beta1.RemoteTenantNamespaceAnnotation], secret.Data[remotecluster.KubeconfigKey]))
}

func (r *Reconciler) ensureRunning(ctx context.Context, name client.ObjectKey, secret *corev1.Secret) (ctrl.Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.base == nil {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	content := contentOf(secret)
	current, runs := r.running[name]
	if runs && current.content == content {
		return ctrl.Result{}, nil
	}
	// An invalid Secret does not stop a reflector: the previous content may still be valid.
	config, err := remotecluster.Config(secret, remotecluster.Limits{Response: 2 * MaxCopies, Values: 2 * MaxCopies / valueCost, Types: r.Client.Scheme()})
	if err != nil {
		r.Events.Eventf(secret, nil, corev1.EventTypeWarning, reasonInvalidKubeconfig, actionReplicate, "Failed to replicate: %v", err)
		return ctrl.Result{}, reconcile.TerminalError(fmt.Errorf("reading Secret %s: %w", name, err))
	}
	remote, err := r.Options.Connect(config)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("connecting with Secret %s: %w", name, err)
	}
	if runs {
		current.stop()
	}
	r.running[name] = r.start(ctx, secret, remote, content)
	return ctrl.Result{}, nil
}

// start starts a reflector. The lock must be held.
func (r *Reconciler) start(ctx context.Context, secret *corev1.Secret, remote dynamic.Interface, content [sha256.Size]byte) *session {
	p := peer{
		id:              secret.Labels[liqocorev1beta1.RemoteClusterIDLabel],
		localNamespace:  secret.Namespace,
		remoteNamespace: secret.Annotations[authv1beta1.RemoteTenantNamespaceAnnotation],
	}
	if r.locals == nil {
		r.locals = startLocals(r.base, r.Options.Local, r.Options.Resources, r.Options.Resync)
	}
	logger := log.FromContext(ctx).WithValues("remoteCluster", p.id)
	life, cancel := context.WithCancel(log.IntoContext(r.base, logger))
	s := &session{content: content, cancel: cancel, done: make(chan struct{}), reflector: &reflector{
		own: r.Options.ClusterID, peer: p, resources: r.Options.Resources, resync: r.Options.Resync,
		local: r.Options.Local, remote: remote, errors: newErrorReporter(r.Events, p),
		isUnreachable: func(ctx context.Context) (bool, error) { return r.isUnreachable(ctx, p.id) },
		locals:        r.locals, now: r.Options.Now,
	}}
	logger.Info("Starting replication", "localNamespace", p.localNamespace, "remoteNamespace", p.remoteNamespace)
	go func() {
		defer close(s.done)
		s.reflector.run(life)
	}()
	return s
}

// withdraw stops the reflector of a Secret that is being deleted when every object that was
// replicated with it is gone: the copies can only be deleted with this credential.
func (r *Reconciler) withdraw(ctx context.Context, name client.ObjectKey, secret *corev1.Secret, selected bool) (ctrl.Result, error) {
	remaining, err := r.countRemaining(ctx, secret)
	if err != nil {
		return ctrl.Result{}, err
	}
	if remaining == 0 {
		r.stop(name)
		return ctrl.Result{}, r.release(ctx, secret)
	}
	isMadeAgain, err := r.isMadeAgain(ctx, secret)
	if err != nil {
		return ctrl.Result{}, err
	}
	if isMadeAgain {
		return ctrl.Result{}, r.release(ctx, secret) // The reflector runs on with the next Secret, which has the same content.
	}
	r.Events.Eventf(secret, nil, corev1.EventTypeNormal, reasonKubeconfigInUse, actionReplicate,
		"The Secret is kept for the copies of objects of this namespace in cluster %s, which can be deleted with it only. "+
			"Run longshorectl unpeer to end the peering, or remove the finalizer %s to leave the copies behind.",
		secret.Labels[liqocorev1beta1.RemoteClusterIDLabel], liqocorev1beta1.ReplicatorSecretFinalizer)
	if !selected {
		return ctrl.Result{RequeueAfter: stopPoll}, nil
	}
	// After a restart no reflector runs yet. One that cannot be started does not end the wait: the objects
	// may be released meanwhile.
	result, err := r.ensureRunning(ctx, name, secret)
	if (err == nil || errors.Is(err, reconcile.TerminalError(nil))) && result.RequeueAfter == 0 {
		return ctrl.Result{RequeueAfter: stopPoll}, nil
	}
	return result, err
}

// isMadeAgain reports whether a deleted Secret is made again as soon as it is gone, because the Identity
// that it was made of stays: an administrator deleted the Secret and not the peering. Otherwise it would be kept
// for objects that do not end. An Identity in a cache, or in a namespace that is deleted, may be about to
// go, and the Secret is then the last credential; so both are read from the API server.
func (r *Reconciler) isMadeAgain(ctx context.Context, secret *corev1.Secret) (bool, error) {
	owner := metav1.GetControllerOf(secret)
	if owner == nil || owner.APIVersion != authv1beta1.GroupVersion.String() || owner.Kind != "Identity" {
		return false, nil
	}
	identity, err := r.Options.Local.Resource(authv1beta1.GroupVersion.WithResource("identities")).Namespace(secret.Namespace).Get(ctx, owner.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading Identity %s/%s: %w", secret.Namespace, owner.Name, err)
	}
	namespace, err := r.Options.Local.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).Get(ctx, secret.Namespace, metav1.GetOptions{})
	if err != nil {
		return false, fmt.Errorf("reading namespace %q: %w", secret.Namespace, err)
	}
	return identity.GetUID() == owner.UID && identity.GetDeletionTimestamp() == nil && namespace.GetDeletionTimestamp() == nil, nil
}

// releaseUnused removes the finalizer of a Secret that is not selected, unless objects of its
// namespace were replicated with it: the credential is needed to delete their copies.
func (r *Reconciler) releaseUnused(ctx context.Context, secret *corev1.Secret) error {
	remaining, err := r.countRemaining(ctx, secret)
	if err != nil || remaining > 0 {
		return err
	}
	return r.release(ctx, secret)
}

// stop stops the reflector of a Secret, if it runs.
func (r *Reconciler) stop(name client.ObjectKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.running[name]; ok {
		s.stop()
		delete(r.running, name)
		if len(r.running) == 0 {
			r.locals.stop()
			r.locals = nil
		}
	}
}

// isReleased reports whether the finalizer was removed from this version of a Secret. Without the
// finalizer, the Secret may be gone, and with it the rights in its namespace.
func (r *Reconciler) isReleased(secret *corev1.Secret) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	version, exists := r.released[client.ObjectKeyFromObject(secret)]
	return exists && version == secret.ResourceVersion
}

// setReleased records the version of a Secret whose finalizer was removed; "" is none.
func (r *Reconciler) setReleased(name client.ObjectKey, version string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if version == "" {
		delete(r.released, name)
	} else {
		r.released[name] = version
	}
}

// release removes the finalizer from a Secret.
func (r *Reconciler) release(ctx context.Context, secret *corev1.Secret) error {
	before := secret.DeepCopy()
	if !controllerutil.RemoveFinalizer(secret, liqocorev1beta1.ReplicatorSecretFinalizer) {
		return nil
	}
	err := r.Client.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizer of Secret %s: %w", client.ObjectKeyFromObject(secret), err)
	}
	r.setReleased(client.ObjectKeyFromObject(secret), before.ResourceVersion)
	return nil
}

// countRemaining returns the number of objects in the Secret's namespace with the finalizer.
func (r *Reconciler) countRemaining(ctx context.Context, secret *corev1.Secret) (int, error) {
	total := 0
	var errs []error
	for _, resource := range r.Options.Resources {
		list, err := r.Options.Local.Resource(resource).Namespace(secret.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			errs = append(errs, fmt.Errorf("listing %s: %w", resource.GroupResource(), err))
			continue
		}
		for i := range list.Items {
			if isFinalized(&list.Items[i]) {
				total++
			}
		}
	}
	return total, errors.Join(errs...)
}

// isUnreachable reports whether the cluster is permanently unreachable.
func (r *Reconciler) isUnreachable(ctx context.Context, id string) (bool, error) {
	list := &liqocorev1beta1.ForeignClusterList{}
	if err := r.Client.List(ctx, list); err != nil {
		return false, fmt.Errorf("listing ForeignClusters: %w", err)
	}
	for i := range list.Items {
		if fc := &list.Items[i]; string(fc.Spec.ClusterID) == id && fc.PermanentlyUnreachable() {
			return true, nil
		}
	}
	return false, nil
}

func (s *session) stop() {
	s.cancel()
	<-s.done
}
