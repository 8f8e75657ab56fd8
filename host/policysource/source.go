// Package policysource keeps the policy chains of a component in line with the cluster's
// OffloadingPolicies. Every component that calls policies runs one Source. All Sources watch
// the same objects and follow changes on their own; nothing restarts.
//
// Data flows in one direction: package modules loads the modules that the policies name, package
// plan computes the bindings, the chains take them, and package report writes what decides
// into the component's own PolicyComponent. The manager summarizes these in the policies'
// status (package status), which no Source reads.
//
// The chains decide nothing before the first reconciliation, so that a disabled default is
// off from the start.
package policysource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/kit/retry"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policysource/modules"
	"github.com/longshore-dev/longshore/host/policysource/plan"
	"github.com/longshore-dev/longshore/host/policysource/report"
)

// Options of [New].
type Options struct {
	// Identity of the component that calls the policies.
	Identity report.Identity
	// Elected is set if several replicas share the identity: the leader reports.
	Elected bool
	// Client reads from a cache and writes the PolicyComponent.
	Client client.Client
	// BuiltIn is the module of the default policies. It is never closed.
	BuiltIn chain.Policy
	// BuiltInBytes returns the bytes of BuiltIn, which is loaded once more for policies with
	// limits.
	BuiltInBytes func() ([]byte, error)
	// Attested returns an error unless a signed report shows that the module with this digest conforms;
	// nil requires no reports.
	Attested func(ctx context.Context, report []byte, digest string) error
	// Load loads modules.
	Load modules.LoadFunc
	// Stages are the extension points, with their moments, at which the component calls policies;
	// none means all. The modules of other policies are not kept in memory.
	Stages []chain.Stage
	// Close is called with every policy that Load has returned, once it is not used any more.
	Close func(chain.Policy)
	// ModuleNamespaces are the namespaces whose ConfigMaps may hold modules. They are
	// watched.
	ModuleNamespaces []string
	// Chain are the options of the chains; Retired, Observer, Clock and HealthChanged are
	// set by the Source.
	Chain chain.Options
	// Metrics of the policies; may be nil.
	Metrics *Metrics
	// Changed is called after decisions may have changed: the chains have other bindings, the
	// first ones included, or a quarantine has ended. It may be nil and must not block.
	Changed func()
	// Clock for reports, quarantines and durations.
	Clock clock.PassiveClock
}

// Source reconciles OffloadingPolicies into chains.
type Source struct {
	options     Options
	chains      *chain.Chains
	modules     *modules.Modules
	differences *report.Differences
	ready       atomic.Bool
	// standby is set while another replica reports for this component.
	standby atomic.Bool
	// ownerReplaced is set until the worker has noted it.
	ownerReplaced atomic.Bool
	queue         atomic.Pointer[workqueue.TypedRateLimitingInterface[reconcile.Request]]
	// planned is what became of each policy, for readers beside the worker, which replaces it.
	planned atomic.Pointer[[]plan.Outcome]

	// The fields below belong to the worker.
	writer *report.Writer
	// quarantined has the versions of quarantined policies by name.
	quarantined map[string]string
}

// New returns a Source whose chains decide nothing until the first reconciliation.
func New(options Options) (*Source, error) {
	if options.Changed == nil {
		options.Changed = func() {}
	}
	if options.Metrics == nil {
		var err error
		if options.Metrics, err = NewMetrics(prometheus.NewRegistry()); err != nil {
			return nil, err
		}
	}
	s := &Source{
		options:     options,
		writer:      &report.Writer{Client: options.Client, Identity: options.Identity, Clock: options.Clock},
		differences: report.NewDifferences(options.Clock),
	}
	s.standby.Store(options.Elected)
	s.planned.Store(&[]plan.Outcome{})
	s.modules = modules.New(modules.Options{
		Client: options.Client, Namespaces: options.ModuleNamespaces, BuiltIn: options.BuiltIn, BuiltInBytes: options.BuiltInBytes,
		Attested: options.Attested, Load: options.Load, Serves: callsModule(options.Stages), Close: options.Close, Loaded: options.Metrics.loaded, Clock: options.Clock,
		Requeue: func(delay time.Duration) { s.requeueAfter(reconcileAll, delay) },
	})
	options.Chain.Retired, options.Chain.Observer = s.retire, s
	options.Chain.Clock, options.Chain.HealthChanged = options.Clock.Now, func() { s.requeueAfter(reportOnly, 0) }
	s.chains = chain.New(options.Chain)
	if err := options.Metrics.registry.Register(stateCollector{source: s}); err != nil {
		return nil, fmt.Errorf("registering policy metrics: %w", err)
	}
	return s, nil
}

// Observe implements chain.Observer.
func (s *Source) Observe(o chain.Observation) {
	if delay, isNew := s.differences.Observe(o); isNew {
		s.requeueAfter(reportOnly, delay)
	}
	s.options.Metrics.Observe(o)
}

// Chains returns the chains that the Source keeps.
func (s *Source) Chains() *chain.Chains { return s.chains }

// Ready returns an error until the chains have the policies of the cluster.
func (s *Source) Ready() error {
	if !s.ready.Load() {
		return chain.ErrNotLoaded
	}
	return nil
}

// OwnerReplaced makes the component report again: another object has the name of the owner of its
// report, which is deleted with the previous one.
func (s *Source) OwnerReplaced() {
	s.ownerReplaced.Store(true)
	s.requeueAfter(reportOnly, 0)
}

// retire closes a loaded policy after its last call.
func (s *Source) retire(policy chain.Policy) {
	if _, absent := policy.(*plan.Absent); !absent && policy != s.options.BuiltIn {
		s.options.Close(policy)
	}
}

// The requests: all policies are reconciled at once, or their state is only reported.
var (
	reconcileAll = reconcile.Request{NamespacedName: types.NamespacedName{Name: "policies"}}
	reportOnly   = reconcile.Request{NamespacedName: types.NamespacedName{Name: "report"}}
)

func (s *Source) requeueAfter(request reconcile.Request, delay time.Duration) {
	if queue := s.queue.Load(); queue != nil {
		(*queue).AddAfter(request, delay)
	}
}

// SetupWithManager adds the Source to a manager; it runs in every replica.
//
// +kubebuilder:rbac:groups=policy.longshore.dev,resources=offloadingpolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
func (s *Source) SetupWithManager(mgr ctrl.Manager) error {
	enqueue := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{reconcileAll}
	})
	err := ctrl.NewControllerManagedBy(mgr).
		Named("policysource").
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, NeedLeaderElection: ptr.To(false), RateLimiter: retry.Limiter[reconcile.Request]()}).
		Watches(&policyv1alpha1.OffloadingPolicy{}, enqueue, builder.WithPredicates(changesPolicy())).
		Watches(&corev1.ConfigMap{}, enqueue, builder.WithPredicates(s.holdsModules())).
		// The first reconciliation follows when the caches are filled, even without objects.
		WatchesRawSource(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			s.queue.Store(&queue)
			queue.Add(reconcileAll)
			return nil
		})).
		Complete(s)
	if err := errors.Join(err, mgr.Add(loader{s.modules}), mgr.Add(reporter{s})); err != nil {
		return fmt.Errorf("adding the policy source: %w", err)
	}
	return nil
}

// loader stops the loads of modules when the component stops.
type loader struct{ modules *modules.Modules }

// Start implements manager.Runnable.
func (l loader) Start(ctx context.Context) error {
	<-ctx.Done()
	l.modules.Stop()
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica loads modules.
func (loader) NeedLeaderElection() bool { return false }

// reporter starts the reports when this replica is elected.
type reporter struct{ source *Source }

// Start implements manager.Runnable.
func (r reporter) Start(ctx context.Context) error {
	if r.source.standby.Swap(false) {
		r.source.requeueAfter(reportOnly, 0)
	}
	<-ctx.Done()
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (reporter) NeedLeaderElection() bool { return true }

// changesPolicy lets changes of the spec and of the record of the enforced version pass. A
// component that cannot use a policy holds it as soon as another one enforces it.
func changesPolicy() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, _ := e.ObjectOld.(*policyv1alpha1.OffloadingPolicy)
		after, _ := e.ObjectNew.(*policyv1alpha1.OffloadingPolicy)
		if before == nil || after == nil {
			return false
		}
		isSame := before.Generation == after.Generation && before.UID == after.UID
		return !isSame || (plan.EnforcedVersion(before) == nil) != (plan.EnforcedVersion(after) == nil)
	}}
}

// holdsModules lets events of ConfigMaps pass that hold modules, or held one before.
func (s *Source) holdsModules() predicate.Predicate {
	holds := func(o client.Object) bool {
		configMap, ok := o.(*corev1.ConfigMap)
		return ok && len(configMap.BinaryData) > 0 && slices.Contains(s.options.ModuleNamespaces, o.GetNamespace())
	}
	either := predicate.NewPredicateFuncs(holds)
	either.UpdateFunc = func(e event.UpdateEvent) bool { return holds(e.ObjectOld) || holds(e.ObjectNew) }
	return either
}
