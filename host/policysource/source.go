// Package policysource keeps the policy chains of a component in line with the cluster's
// OffloadingPolicies. Every component that calls policies runs one Source. All Sources watch
// the same objects and follow changes on their own; nothing restarts.
//
// Data flows in one direction: the Source loads the modules that the policies name, package
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
	"github.com/longshore-dev/longshore/host/policysource/loading"
	"github.com/longshore-dev/longshore/host/policysource/plan"
	"github.com/longshore-dev/longshore/host/policysource/report"
)

// defaultReportPeriod is the least time between two writes of differences.
const defaultReportPeriod = time.Minute

// ModuleLimits lower what a call of a module may use; zero means the host's bounds.
type ModuleLimits struct {
	// Fuel in ticks.
	Fuel int64
	// MemoryBytes of an instance.
	MemoryBytes int64
}

// LoadFunc turns the bytes of a module into a policy: module.Load, bound to an engine.
// The name is for messages. Its errors say who must act. It is called from several
// goroutines. It may ignore its context and return after it has loaded the module.
type LoadFunc func(ctx context.Context, name string, raw []byte, limits ModuleLimits) (chain.Policy, error)

// Options of [New].
type Options struct {
	// Identity of the component that calls the policies.
	Identity report.Identity
	// Elected is set if several replicas share the identity: the leader reports.
	Elected bool
	// Client reads from a cache and writes the PolicyComponent.
	Client client.Client
	// BuiltIns are the modules that the host carries, by the name in spec.module.builtIn;
	// policyv1alpha1.BuiltInDefault is required. They are never closed.
	BuiltIns map[string]chain.Policy
	// BuiltInModules return the bytes of the modules in BuiltIns, which are loaded once more
	// for policies with limits. A module without bytes cannot be limited.
	BuiltInModules map[string]func() ([]byte, error)
	// Load loads modules from ConfigMaps; nil refuses them.
	Load LoadFunc
	// Close is called with every policy that Load has returned, once it is not used any more;
	// may be nil.
	Close func(chain.Policy)
	// ModuleNamespaces are the namespaces whose ConfigMaps may hold modules. They are
	// watched.
	ModuleNamespaces []string
	// Chain are the options of the chains; Retired, Observer, Clock and HealthChanged are
	// set by the Source.
	Chain chain.Options
	// Metrics of the policies; nil counts none.
	Metrics *Metrics
	// ReportPeriod is the least time between two writes of differences, a minute when zero.
	ReportPeriod time.Duration
	// Changed is called after decisions may have changed: the chains have other bindings, the
	// first ones included, or a quarantine has ended. It may be nil and must not block.
	Changed func()
	// Clock for reports, quarantines and durations.
	Clock clock.PassiveClock
}

// Source reconciles OffloadingPolicies into chains.
type Source struct {
	options Options
	chains  *chain.Chains
	ready   atomic.Bool
	// standby is set while another replica reports for this component.
	standby atomic.Bool
	// current is what the chains have, for readers beside the worker.
	current atomic.Pointer[map[string]plan.Bound]
	// judging admits one policy at a time to Judge.
	judging     chan struct{}
	verdicts    *assessments
	loads       *loading.Loads[chain.Policy]
	differences *report.Differences
	queue       atomic.Pointer[workqueue.TypedRateLimitingInterface[reconcile.Request]]
	// inventory lists what is bound, for the metrics.
	inventory atomic.Pointer[[]inventoryItem]

	// The fields below belong to the worker.
	bound    map[string]plan.Bound
	modules  map[moduleKey]*module
	settings map[string]checkedSettings
	outcomes []plan.Outcome
	// loadingSince and quarantined have the names of policies as keys. The values of the
	// latter are versions.
	loadingSince map[string]time.Time
	quarantined  map[string]string
	writer       *report.Writer
}

// New returns a Source whose chains decide nothing until the first reconciliation.
func New(options Options) (*Source, error) {
	if options.Identity.Name == "" || options.Client == nil || options.Clock == nil {
		return nil, errors.New("a policy source needs an identity, a client and a clock")
	}
	if options.BuiltIns[policyv1alpha1.BuiltInDefault] == nil {
		return nil, fmt.Errorf("the built-in module %q is missing", policyv1alpha1.BuiltInDefault)
	}
	if options.ReportPeriod == 0 {
		options.ReportPeriod = defaultReportPeriod
	}
	s := &Source{
		options: options, bound: map[string]plan.Bound{}, modules: map[moduleKey]*module{}, settings: map[string]checkedSettings{},
		judging: make(chan struct{}, 1), verdicts: newAssessments(options.Clock),
		writer: &report.Writer{Client: options.Client, Identity: options.Identity, Clock: options.Clock},
	}
	s.standby.Store(options.Elected)
	s.loads = loading.New(maxLoads, s.close, func() { s.requeueAfter(reconcileAll, 0) })
	s.differences = report.NewDifferences(options.Clock, options.ReportPeriod, func(after time.Duration) { s.requeueAfter(reportOnly, after) })
	options.Chain.Retired, options.Chain.Observer = s.retire, s
	options.Chain.Clock, options.Chain.HealthChanged = options.Clock.Now, func() { s.requeueAfter(reportOnly, 0) }
	s.chains = chain.New(options.Chain)
	if err := options.Metrics.attach(s); err != nil {
		return nil, err
	}
	return s, nil
}

// Observe implements chain.Observer.
func (s *Source) Observe(o chain.Observation) {
	s.differences.Observe(o)
	if s.options.Metrics != nil {
		s.options.Metrics.Observe(o)
	}
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

func (s *Source) close(policy chain.Policy) {
	if s.options.Close != nil {
		s.options.Close(policy)
	}
}

// retire closes a loaded policy after its last call.
func (s *Source) retire(policy chain.Policy) {
	if _, absent := policy.(*plan.Absent); absent {
		return
	}
	for _, builtIn := range s.options.BuiltIns {
		if builtIn == policy {
			return
		}
	}
	s.close(policy)
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
	blueprint := ctrl.NewControllerManagedBy(mgr).
		Named("policysource").
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, NeedLeaderElection: ptr.To(false), RateLimiter: retry.Limiter[reconcile.Request]()}).
		Watches(&policyv1alpha1.OffloadingPolicy{}, enqueue, builder.WithPredicates(changesPolicy())).
		// The first reconciliation follows when the caches are filled, even without objects.
		WatchesRawSource(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			s.queue.Store(&queue)
			queue.Add(reconcileAll)
			return nil
		}))
	if len(s.options.ModuleNamespaces) > 0 && s.options.Load != nil {
		blueprint = blueprint.Watches(&corev1.ConfigMap{}, enqueue, builder.WithPredicates(s.holdsModules()))
	}
	if err := blueprint.Complete(s); err != nil {
		return fmt.Errorf("adding the policy source: %w", err)
	}
	if err := errors.Join(mgr.Add(loader{s}), mgr.Add(reporter{s})); err != nil {
		return fmt.Errorf("adding the policy source: %w", err)
	}
	return nil
}

// loader stops the loads of modules when the component stops.
type loader struct{ source *Source }

// Start implements manager.Runnable.
func (l loader) Start(ctx context.Context) error {
	<-ctx.Done()
	l.source.loads.Stop()
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
