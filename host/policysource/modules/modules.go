// Package modules finds, loads and closes the modules that OffloadingPolicies name. Modules
// of ConfigMaps are loaded in the background, a few at a time; policies with the same bytes and
// limits share one.
//
// A component keeps only the modules that it calls. It loads every module once, to check it and to
// know its manifest, so that conflicts between policies are found everywhere, and closes those that it
// does not call: its report says so, and the status of a policy counts the components that call it.
package modules

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/engine"
	policymodule "github.com/longshore-dev/longshore/host/policy/module"
	"github.com/longshore-dev/longshore/host/policysource/plan"
	"github.com/longshore-dev/longshore/sdk/contract"
)

const (
	// maxLoads is how many modules are loaded at a time: compiling a module takes a processor
	// and, for a while, many times the memory that the module needs afterwards.
	maxLoads = 2
	// loadRetry is the delay before a load is repeated that failed for a reason outside the
	// module, for example a lack of memory.
	loadRetry = time.Minute
)

// Limits lower what a call of a module may use; zero means the host's bounds.
type Limits struct {
	// Fuel in ticks.
	Fuel int64
	// MemoryBytes of an instance.
	MemoryBytes int64
}

// Engine returns the limits of the engine.
func (l Limits) Engine() engine.Limits {
	return engine.Limits{Fuel: uint64(l.Fuel), MemoryBytes: uint64(l.MemoryBytes)}
}

// LoadFunc turns the bytes of a module into a policy: module.Load, bound to an engine.
// The name is for messages. Its errors say who must act. It is called from several
// goroutines. It may ignore its context and return after it has loaded the module.
type LoadFunc func(ctx context.Context, name string, raw []byte, limits Limits) (chain.Policy, error)

// Options of [New]. All but Serves are required.
type Options struct {
	// Client reads ConfigMaps.
	Client client.Reader
	// Namespaces are those whose ConfigMaps may hold modules.
	Namespaces []string
	// BuiltIn is the module with the name policyv1alpha1.BuiltInDefault. It is never closed.
	BuiltIn chain.Policy
	// BuiltInBytes returns the bytes of BuiltIn, which is loaded once more for each policy with
	// other limits.
	BuiltInBytes func() ([]byte, error)
	// Attested returns an error unless a signed report shows that the module with this digest of its
	// unpacked bytes conforms; nil requires no reports.
	Attested func(ctx context.Context, report []byte, digest string) error
	// Load loads modules.
	Load LoadFunc
	// Serves reports whether the component calls a module with this manifest; nil means that it
	// calls all. Of a module that it does not call, only the description is kept.
	Serves func(*contract.Manifest) bool
	// Close is called with every policy that Load has returned, once it is not used any more.
	Close func(chain.Policy)
	// Loaded is called with the name of the policy after each load that Get has started and
	// that has not been canceled. It must not block.
	Loaded func(name string, err error)
	// Requeue is called with the delay after which Get must be called again. It must not block.
	Requeue func(delay time.Duration)
	// Clock for delays.
	Clock clock.PassiveClock
}

// Modules are the modules of one component. One worker calls Get and Keep; Judge and Stop may
// be called from other goroutines.
type Modules struct {
	options Options
	// judging admits one policy at a time to Judge.
	judging chan struct{}
	// verdicts are results by content.
	verdicts *cache.LRUExpireCache
	// attested are results of options.Attested by module and report.
	attested *cache.LRUExpireCache
	slots    chan struct{}
	running  sync.WaitGroup

	mu      sync.Mutex
	stopped bool
	known   map[Key]*module
}

// Key identifies a loaded module by its content, or built-in name, and its limits.
type Key struct {
	content string
	limits  Limits
}

// module is a module that is loaded, cannot be loaded, or is being loaded.
type module struct {
	cancel context.CancelFunc
	// began is when the load began, retryAt when it is repeated; zero for never.
	began, retryAt time.Time
	// ended is set when there is a policy or an error.
	ended  bool
	policy chain.Policy
	err    error
	// isBound is set once the chains have had the module: they report when it can be closed.
	isBound bool
	// isDescribed is set when policy describes a module that is closed, because the component
	// does not call it.
	isDescribed bool
}

// New returns Modules of which none is loaded.
func New(options Options) *Modules {
	return &Modules{
		options: options, judging: make(chan struct{}, 1), slots: make(chan struct{}, maxLoads), known: map[Key]*module{},
		verdicts: cache.NewLRUExpireCacheWithClock(maxVerdicts, options.Clock),
		attested: cache.NewLRUExpireCacheWithClock(maxVerdicts, options.Clock),
	}
}

// Get returns the state of the module that a policy names, with the problem of its settings. If
// the module is not loaded yet, Get starts that in the background; the end of the load requeues.
// An error is temporary.
func (m *Modules) Get(ctx context.Context, policy *policyv1alpha1.OffloadingPolicy) (Key, plan.Module, error) {
	if plan.CheckSpec(policy) != nil || plan.IsDisabled(policy) {
		return Key{}, plan.Module{}, nil
	}
	found, problem, err := m.find(ctx, policy, nil)
	if err != nil || problem != nil {
		return Key{}, plan.Module{Problem: problem}, err
	}
	// Limits are part of the policy's generation.
	state := plan.Module{ID: found.key.content, Policy: found.builtIn}
	if state.Policy == nil {
		m.load(ctx, policy.Name, &found, &state)
	}
	if state.Policy != nil {
		state.Problem = m.checkSettings(ctx, policy, found.key, state.Policy)
	}
	return found.key, state, nil
}

// load fills the state of the module of these bytes.
func (m *Modules) load(ctx context.Context, name string, found *found, state *plan.Module) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.known[found.key]
	if known == nil || !known.retryAt.IsZero() && !m.options.Clock.Now().Before(known.retryAt) {
		known = m.begin(ctx, name, found)
		m.known[found.key] = known
	}
	switch {
	case !known.ended:
		state.LoadingSince = known.began
	case known.err == nil:
		state.Policy = known.policy
	case known.retryAt.IsZero():
		state.Problem = notLoaded(known.err)
	default:
		state.Problem = notLoaded(fmt.Errorf("%w; the module is not the cause, and the load is repeated every minute: an operator should check the component", known.err))
	}
}

func notLoaded(err error) *plan.Problem {
	return &plan.Problem{Reason: plan.ReasonModuleNotLoaded, Err: err}
}

// begin starts a load, which outlives the context. It is called with the lock.
func (m *Modules) begin(ctx context.Context, name string, found *found) *module {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	started := &module{cancel: cancel, began: m.options.Clock.Now()}
	if m.stopped {
		cancel()
		return started
	}
	m.running.Go(func() {
		defer cancel()
		select {
		case m.slots <- struct{}{}:
			defer func() { <-m.slots }()
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return
		}
		policy, err := m.options.load(ctx, name, found)
		if !m.finish(ctx, name, started, policy, err) && err == nil {
			m.options.Close(policy)
		}
	})
	return started
}

// finish stores the result of a load, unless the load was canceled.
func (m *Modules) finish(ctx context.Context, name string, started *module, policy chain.Policy, err error) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx.Err() != nil {
		return false
	}
	started.ended, started.err = true, err
	switch {
	case err == nil && m.options.Serves != nil && !m.options.Serves(policy.Manifest()):
		started.policy, started.isDescribed = describe(policy), true
		m.options.Close(policy)
	case err == nil: // with an error it may be a typed nil
		started.policy = policy
	case !policymodule.AtFault(err):
		started.retryAt = m.options.Clock.Now().Add(loadRetry)
		m.options.Requeue(loadRetry)
	}
	m.options.Loaded(name, err)
	m.options.Requeue(0)
	return true
}

// Keep drops the modules that no policy names and no binding uses. The chains report when a
// module that they have had can be closed.
func (m *Modules) Keep(named map[Key]bool, bound map[chain.Policy]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, known := range m.known {
		if known.policy != nil && bound[known.policy] {
			known.isBound = true
			continue
		}
		if !known.isBound && named[key] {
			continue
		}
		delete(m.known, key)
		known.cancel()
		if known.policy != nil && !known.isDescribed && !known.isBound {
			m.options.Close(known.policy)
		}
	}
}

// Stop cancels all loads and returns when none runs any more. No load begins after it.
func (m *Modules) Stop() {
	m.mu.Lock()
	m.stopped = true
	for _, known := range m.known {
		known.cancel()
	}
	m.mu.Unlock()
	m.Wait()
}

// Wait returns when no load runs.
func (m *Modules) Wait() { m.running.Wait() }
