// Package policysource keeps the policy chains of a component as the cluster's
// OffloadingPolicy objects say. Every component that asks policies runs one Source;
// all watch the same objects and swap on their own, nothing restarts.
//
// Each pass looks at all objects and replaces all bindings at once. A core point
// without an object of its default's name has the built-in default bound; such an
// object replaces it and deleting the object restores it. A bad object never replaces
// a good binding: the previous one stays, and the object's status says what is wrong and
// who must act. Without a previous one, after a start, a policy that was in force holds
// what it concerns back, if its failure policy says so; one that never was is not asked. Nothing is decided before the first pass, so that what an
// operator has switched off is off from the start.
package policysource

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
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
)

// ModuleLimits lower what a call of a module may use; zero means the host's bounds.
type ModuleLimits struct {
	// Fuel in ticks.
	Fuel int64
	// MemoryBytes of an instance.
	MemoryBytes int64
}

// LoadFunc turns the bytes of a module into a policy: module.Load, bound to an engine.
// The name is for messages. Its errors say who must act. It is called from several
// goroutines; one that ignores its context ends when it has loaded the module.
type LoadFunc func(ctx context.Context, name string, raw []byte, limits ModuleLimits) (chain.Policy, error)

// Components are those that run policies.
type Components struct {
	// Names of those that may report; what others have reported is removed.
	Names map[string]bool
	// Speaker is the one that writes conditions.
	Speaker string
}

// Options of [New].
type Options struct {
	// Component that runs the policies, as status.observedBy names it: "webhook/<pod>",
	// "virtual-kubelet/<node>".
	Component string
	// Client reads from a cache and writes status.
	Client client.Client
	// BuiltIns are the modules that the host carries, by the name in spec.module.builtIn;
	// policyv1alpha1.BuiltInDefault is required. They are never closed.
	BuiltIns map[string]chain.Policy
	// BuiltInModules return the bytes of the modules in BuiltIns: they are loaded once more
	// for policies with limits of their own. One that is missing cannot be limited.
	BuiltInModules map[string]func() ([]byte, error)
	// Load loads modules from ConfigMaps; nil refuses them.
	Load LoadFunc
	// Close is told of every policy that Load returned and that is not used any more;
	// may be nil.
	Close func(chain.Policy)
	// ModuleNamespaces are the namespaces whose ConfigMaps may hold modules. They are
	// watched.
	ModuleNamespaces []string
	// Chain are the options of the chains; Retired, Observer, Clock and HealthChanged are
	// set by the Source.
	Chain chain.Options
	// Conditions makes this component write the part of the status that belongs to
	// nobody in particular: conditions, digest, manifest. One component does, and one of its
	// replicas: see Components.
	Conditions bool
	// Components tells who runs policies, of use with Conditions. Nil lets anybody report,
	// and no other write conditions.
	Components func(ctx context.Context) (Components, error)
	// Events on OffloadingPolicies; nil records none.
	Events events.EventRecorder
	// Metrics of the policies; nil counts none.
	Metrics *Metrics
	// ReportPeriod is the least time between two writes of counters, a minute when zero.
	ReportPeriod time.Duration
	// Changed is called when the chains have other bindings than before, the first ones
	// included, so that what was decided with the previous ones can be decided again; may
	// be nil. It must not block.
	Changed func()
	// Clock for status times, quarantines and durations.
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
	current atomic.Pointer[map[string]bound]
	// judging admits one policy at a time to Judge.
	judging  chan struct{}
	verdicts *assessments
	loads    *loading.Loads[chain.Policy]
	tally    *tally
	queue    atomic.Pointer[workqueue.TypedRateLimitingInterface[reconcile.Request]]
	// inventory is for the metrics: what is bound.
	inventory atomic.Pointer[[]inventoryItem]

	// The rest belongs to the one worker.
	bound   map[string]bound
	modules map[moduleKey]*module
	// latest are the candidates of the last pass, by name.
	latest map[string]*candidate
	// written is what this component has made of the status of policies, by name: the cache
	// may show it late.
	written map[string]written
	// told is what events have told of ailing versions, by policy.
	told map[string]ailing
	// announced is what events have told last of loading, by policy.
	announced map[string]string
}

// New returns a Source whose chains decide nothing until the first pass.
func New(options Options) (*Source, error) {
	if options.Component == "" || options.Client == nil || options.Clock == nil {
		return nil, errors.New("a policy source needs a component, a client and a clock")
	}
	if options.BuiltIns[policyv1alpha1.BuiltInDefault] == nil {
		return nil, fmt.Errorf("the built-in module %q is missing", policyv1alpha1.BuiltInDefault)
	}
	if options.ReportPeriod == 0 {
		options.ReportPeriod = time.Minute
	}
	s := &Source{
		options: options, bound: map[string]bound{}, modules: map[moduleKey]*module{},
		judging: make(chan struct{}, 1), verdicts: newAssessments(options.Clock),
		latest: map[string]*candidate{}, written: map[string]written{}, told: map[string]ailing{}, announced: map[string]string{},
	}
	s.loads = loading.New(maxLoads, s.close, s.loaded)
	s.tally = newTally(options.Clock, options.ReportPeriod, s.reportAfter)
	options.Chain.Retired, options.Chain.Observer = s.retired, s
	options.Chain.Clock, options.Chain.HealthChanged = options.Clock.Now, s.healthChanged
	s.chains = chain.New(options.Chain)
	if err := options.Metrics.attach(s); err != nil {
		return nil, err
	}
	return s, nil
}

// Observe implements chain.Observer.
func (s *Source) Observe(o chain.Observation) {
	s.tally.observe(o)
	if s.options.Metrics != nil {
		s.options.Metrics.Observe(o)
	}
}

// Chains returns the chains that the Source keeps.
func (s *Source) Chains() *chain.Chains { return s.chains }

// Ready returns an error until the first pass has bound what the cluster says.
func (s *Source) Ready() error {
	if !s.ready.Load() {
		return chain.ErrNotLoaded
	}
	return nil
}

// close gives a loaded policy back.
func (s *Source) close(policy chain.Policy) {
	if s.options.Close != nil {
		s.options.Close(policy)
	}
}

// retired closes a loaded policy after its last call.
func (s *Source) retired(policy chain.Policy) {
	if _, absent := policy.(*declared); absent {
		return
	}
	for builtIn := range maps.Values(s.options.BuiltIns) {
		if builtIn == policy {
			return
		}
	}
	s.close(policy)
}

// The requests: a pass over all objects, and one that only reports.
var (
	everything = reconcile.Request{NamespacedName: types.NamespacedName{Name: "policies"}}
	reporting  = reconcile.Request{NamespacedName: types.NamespacedName{Name: "report"}}
)

// reportAfter has the status reported, after a while.
func (s *Source) reportAfter(delay time.Duration) {
	if queue := s.queue.Load(); queue != nil {
		(*queue).AddAfter(reporting, delay)
	}
}

// passAfter makes a pass, after a while.
func (s *Source) passAfter(delay time.Duration) {
	if queue := s.queue.Load(); queue != nil {
		(*queue).AddAfter(everything, delay)
	}
}

// loaded makes a pass, since a module has been loaded, or refused.
func (s *Source) loaded() {
	if queue := s.queue.Load(); queue != nil {
		(*queue).Add(everything)
	}
}

// Report has the status of all policies looked at again: a component may have gone.
func (s *Source) Report() { s.reportAfter(0) }

// healthChanged reports a quarantine, or its end, at once.
func (s *Source) healthChanged() { s.reportAfter(0) }

// SetupWithManager adds the Source to a manager, leader or not: every replica decides.
//
// +kubebuilder:rbac:groups=policy.longshore.dev,resources=offloadingpolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=policy.longshore.dev,resources=offloadingpolicies/status,verbs=patch
func (s *Source) SetupWithManager(mgr ctrl.Manager) error {
	enqueue := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{everything}
	})
	blueprint := ctrl.NewControllerManagedBy(mgr).
		Named("policysource").
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, NeedLeaderElection: ptr.To(false), RateLimiter: retry.Limiter[reconcile.Request]()}).
		Watches(&policyv1alpha1.OffloadingPolicy{}, s.policyHandler()).
		// The first pass comes when the caches are filled, even if there is no object.
		WatchesRawSource(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			s.queue.Store(&queue)
			queue.Add(everything)
			return nil
		}))
	if len(s.options.ModuleNamespaces) > 0 && s.options.Load != nil {
		blueprint = blueprint.Watches(&corev1.ConfigMap{}, enqueue, builder.WithPredicates(s.holdsModules()))
	}
	if err := blueprint.Complete(s); err != nil {
		return fmt.Errorf("adding the policy source: %w", err)
	}
	s.standby.Store(true)
	if err := errors.Join(mgr.Add(loader{s}), mgr.Add(elected{s})); err != nil {
		return fmt.Errorf("adding the policy source: %w", err)
	}
	return nil
}

// loader ends the loads of modules with the component, and it not before them.
type loader struct{ source *Source }

// Start implements manager.Runnable.
func (l loader) Start(ctx context.Context) error {
	<-ctx.Done()
	l.source.loads.Stop()
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica loads.
func (loader) NeedLeaderElection() bool { return false }

// elected makes the replica report that leads, or any where none leads.
type elected struct{ source *Source }

// Start implements manager.Runnable.
func (e elected) Start(ctx context.Context) error {
	e.source.standby.Store(false)
	e.source.Report()
	<-ctx.Done()
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (elected) NeedLeaderElection() bool { return true }

// policyHandler asks for a pass when a spec has changed, or whether the policy is in force
// anywhere, and for a report when another
// component says something else than before, or our own entry was taken away. Counters,
// and what only we write, are no news.
func (s *Source) policyHandler() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.Funcs{
		CreateFunc: func(_ context.Context, _ event.CreateEvent, q queue) { q.Add(everything) },
		DeleteFunc: func(_ context.Context, _ event.DeleteEvent, q queue) { q.Add(everything) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			if e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || e.ObjectOld.GetUID() != e.ObjectNew.GetUID() {
				q.Add(everything)
				return
			}
			before, _ := e.ObjectOld.(*policyv1alpha1.OffloadingPolicy)
			after, _ := e.ObjectNew.(*policyv1alpha1.OffloadingPolicy)
			if before == nil || after == nil {
				return
			}
			if (enforcedBySomebody(before) == nil) != (enforcedBySomebody(after) == nil) {
				q.Add(everything) // who cannot use it is to hold what it concerns back
			}
			if s.options.Conditions && !s.sameSayings(before, after) {
				q.Add(reporting)
			}
			if s.reports(before) && !s.reports(after) {
				// Not at once: who took it away may think that we are gone.
				q.AddAfter(reporting, s.options.ReportPeriod)
			}
		},
	}
}

// reports tells whether the status has an entry of this component.
func (s *Source) reports(policy *policyv1alpha1.OffloadingPolicy) bool {
	return slices.ContainsFunc(policy.Status.ObservedBy, func(o policyv1alpha1.Observation) bool { return o.Name == s.options.Component })
}

// holdsModules lets those ConfigMaps pass that hold modules, or held one: its author may
// have put something else in its place.
func (s *Source) holdsModules() predicate.Predicate {
	holds := func(o client.Object) bool {
		configMap, ok := o.(*corev1.ConfigMap)
		return ok && len(configMap.BinaryData) > 0 && slices.Contains(s.options.ModuleNamespaces, o.GetNamespace())
	}
	either := predicate.NewPredicateFuncs(holds)
	either.UpdateFunc = func(e event.UpdateEvent) bool { return holds(e.ObjectOld) || holds(e.ObjectNew) }
	return either
}
