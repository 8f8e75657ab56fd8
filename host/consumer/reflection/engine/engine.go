// Package engine reflects objects between the consumer and the provider, for each resource
// that a [Definition] describes. The engine owns what the resources have in common:
// informers, the queue, ownership, the skip and allow annotations, requests with their
// preconditions, events, metrics and backoff. Definitions decide, and send no requests.
//
// One informer per kind watches the consumer, shared by the definitions; Secrets have one
// per mapped namespace, since the virtual kubelet may not read others. The provider is
// watched per mapped namespace, since the consumer's rights there are per namespace. A
// namespace is mapped while the NamespaceMap of this provider says that the provider
// accepted it.
//
// Definitions share informers because watches of each kind in each namespace do not scale: fifty virtual
// nodes with a hundred namespaces would open 15,000 watches at the consumer for three kinds. The price
// is that virtual kubelets read these kinds cluster-wide, and hold objects of namespaces that are
// not offloaded in memory. Kinds with many objects are encoded in the cache, built-in ones as
// Protocol Buffers and custom resources as JSON: most of a decoded pod is empty fields and pointers,
// which the garbage collector follows. A read decodes, and a decision makes about three.
//
// A kind has a definition of its own only for logic that package mirror does not have. A decision
// asks no policy itself, so that a table tests it; a [Query] does, after the decision. Events of the
// consumer are not watched: [ApplyLocal] writes them, and reads an event only when its name is taken.
package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/budget"
	"github.com/longshore-dev/longshore/host/kit/contest"
)

// FieldManager owns the fields that reflection writes, on both sides.
const FieldManager = offloadingv1beta1.ReflectionFieldManager

// Options configure an [Engine]. Filter, Mutate, NodeIP, Registerer and ResyncPeriod are optional.
type Options struct {
	// Local and Remote are uncached clients of both clusters. The caller sets their rate
	// limits and content types.
	Local, Remote client.WithWatch
	Definitions   []Definition
	// HomeClusterID, ProviderClusterID and NodeName identify the reflection.
	HomeClusterID, ProviderClusterID, NodeName string
	NodeIP                                     string
	// TenantNamespace is the local namespace that holds the provider's NamespaceMap.
	TenantNamespace string
	// Filter is called for resources with Resource.Filter; without it, all labels and
	// annotations are reflected.
	Filter MetadataFilter
	// Mutate is called for each object that is applied. Pods are created, not applied, and
	// their definition asks the policies itself.
	Mutate ResourceMutation
	// Recorder returns the recorder of events of a component, for example
	// "liqo-pod-reflection".
	Recorder   func(component string) Recorder
	Registerer prometheus.Registerer
	// ResyncPeriod is the time after which each object is decided again; 0 is never.
	ResyncPeriod time.Duration
	Now          func() time.Time
	// Report is called when the provider sends more than is read or kept, or what cannot be decoded
	// ([IsUnreadable]); optional.
	Report func(ctx context.Context, err error)
}

// Engine runs definitions. Its methods are safe for concurrent use.
type Engine struct {
	options  Options
	runners  []*runner
	metrics  *metrics
	revision atomic.Uint64
	link     reachability
	// budget is that of writes of local objects.
	budget *budget.Budget

	maps   *store
	kick   chan struct{}
	filled filledCaches
	// informers are set by Run.
	informers *informers
	// revertBase is contest.Base, and later limits how fast the informers of resources with After begin; tests
	// change them.
	revertBase time.Duration
	later      *rate.Limiter

	mu         sync.RWMutex
	namespaces map[string]*namespace
	// settled is true once the mapped namespaces are known. Until then, objects of other
	// namespaces are not decided.
	settled bool
	// leading is set while this engine handles resources with LeaderOnly.
	leading bool
}

// New checks the options and returns an engine. It sends no requests before Run.
func New(options Options) (*Engine, error) {
	switch {
	case options.Local == nil || options.Remote == nil:
		return nil, errors.New("reflection needs a local and a remote client")
	case options.HomeClusterID == "" || options.ProviderClusterID == "" || options.NodeName == "":
		return nil, errors.New("reflection needs the IDs of both clusters and the name of the virtual node")
	case options.TenantNamespace == "":
		return nil, errors.New("reflection needs the tenant namespace, which holds the NamespaceMap")
	case options.Recorder == nil || options.Now == nil:
		return nil, errors.New("reflection needs an event recorder and a clock")
	}
	if options.Filter == nil {
		options.Filter = func(_ context.Context, _, _ string, local, _ client.Object) (map[string]string, map[string]string, error) {
			return local.GetLabels(), local.GetAnnotations(), nil
		}
	}
	m, err := newMetrics(options.Registerer, options.ProviderClusterID, options.NodeName)
	if err != nil {
		return nil, err
	}
	e := &Engine{
		options: options, metrics: m, namespaces: map[string]*namespace{}, kick: make(chan struct{}, 1), budget: budget.New(),
		revertBase: contest.Base, later: rate.NewLimiter(laterPerSecond, laterBurst),
	}
	e.filled.kick = make(chan struct{}, 1)
	for _, definition := range options.Definitions {
		r, err := e.newRunner(definition)
		if err != nil {
			return nil, err
		}
		e.runners = append(e.runners, r)
	}
	return e, nil
}

// Run reflects until the context ends, and then waits for its goroutines.
func (e *Engine) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	e.informers = newInformers(ctx, e.later)
	group.Go(func() {
		<-ctx.Done()
		e.informers.wait()
	})
	if !waitFor(ctx, e.startInformers(ctx)...) {
		return nil
	}
	logr.FromContextOrDiscard(ctx).Info("Reflecting", "remoteCluster", e.options.ProviderClusterID, "node", e.options.NodeName)
	group.Go(func() {
		<-ctx.Done()
		for _, r := range e.runners {
			r.queue.ShutDown()
		}
	})
	for _, r := range e.runners {
		if !r.resource.LeaderOnly {
			r.start(ctx, &group)
		}
	}
	if e.options.ResyncPeriod > 0 {
		group.Go(func() { e.resync(ctx, e.options.ResyncPeriod) })
	}
	e.followNamespaces(ctx, &group)
	e.stopNamespaces()
	return nil
}

// startInformers starts the informers that do not depend on what is mapped.
func (e *Engine) startInformers(ctx context.Context) (synced []<-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps := identified(selection{client: e.options.Local, kind: namespaceMapKind, options: e.selectMaps()})
	e.maps = e.informers.follow(ctx, &maps, func(client.Object) { e.wake() })
	synced = append(synced, e.maps.synced)
	for _, r := range e.runners {
		if r.resource.LocalFields == nil {
			continue
		}
		r.local = e.informers.follow(ctx, &r.selections.local.selection, func(object client.Object) {
			r.queue.AddTo(laneLocal, Key{Namespace: object.GetNamespace(), Name: object.GetName()})
		})
		synced = append(synced, r.local.synced)
	}
	return synced
}

// selectMaps selects the NamespaceMap of the provider.
func (e *Engine) selectMaps() client.ListOptions {
	return client.ListOptions{Namespace: e.options.TenantNamespace, LabelSelector: labels.SelectorFromSet(labels.Set{
		liqocorev1beta1.RemoteClusterIDLabel: e.options.ProviderClusterID,
		// When both clusters offload to each other, the replicated map of the peer has the
		// first label too, and its mapping is the inverse.
		liqocorev1beta1.RemoteIDLabel: e.options.ProviderClusterID,
	})}
}

// PoliciesChanged increments the policy revision and decides all objects again.
func (e *Engine) PoliciesChanged() {
	e.revision.Add(1)
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, ns := range e.namespaces {
		for r, caches := range ns.caches {
			if caches.active.Load() {
				r.visitKeys(ns, caches, func(r *runner, key Key) { r.queue.AddTo(laneBackground, key) })
			}
		}
	}
}

// RemoteNamespace returns the remote namespace of a local one, and whether it is mapped.
func (e *Engine) RemoteNamespace(local string) (string, bool) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	ns := e.namespaces[local]
	if ns == nil {
		return "", false
	}
	return ns.remote, true
}

// Namespaces returns the reflected namespaces, local to remote, and whether these are all that are
// mapped. Both are of one moment.
func (e *Engine) Namespaces() (namespaces map[string]string, settled bool) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.followedLocked(), e.settled
}

// Local returns the local objects of a resource that are in the cache, for example the
// pods of the virtual node. They are shared: read only.
func (e *Engine) Local(resource string) []client.Object {
	e.mu.RLock()
	defer e.mu.RUnlock()
	var out []client.Object
	for _, r := range e.runners {
		if r.resource.Name != resource {
			continue
		}
		if r.local != nil {
			return r.local.List("")
		}
		for local, ns := range e.namespaces {
			if caches := ns.caches[r]; caches != nil {
				out = append(out, caches.local.List(local)...)
			}
		}
	}
	return out
}

// LocalObject returns one local object from the cache, or nil.
func (e *Engine) LocalObject(resource, namespace, name string) client.Object {
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, r := range e.runners {
		if r.resource.Name != resource {
			continue
		}
		if r.local != nil {
			return r.local.Get(namespace, name)
		}
		if ns := e.namespaces[namespace]; ns != nil && ns.caches[r] != nil {
			return ns.caches[r].local.Get(namespace, name)
		}
	}
	return nil
}

// Settled reports whether the mapped namespaces are known. Their objects may still be
// unreadable.
func (e *Engine) Settled() bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.settled
}

// lookUp returns a reflected namespace and the caches of a resource there; both may be nil.
// settled reports whether a nil namespace means that it is not mapped. All three are of one
// moment: read later, settled could belong to a mapping that holds the namespace.
func (e *Engine) lookUp(local string, r *runner) (ns *namespace, caches *namespaceCaches, settled bool) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	ns = e.namespaces[local]
	if ns == nil {
		return nil, nil, e.settled
	}
	return ns, ns.caches[r], e.settled
}

func (e *Engine) facts(remoteNamespace string) Facts {
	return Facts{
		HomeClusterID:     e.options.HomeClusterID,
		ProviderClusterID: e.options.ProviderClusterID,
		NodeName:          e.options.NodeName,
		NodeIP:            e.options.NodeIP,
		RemoteNamespace:   remoteNamespace,
		PolicyRevision:    e.revision.Load(),
		Now:               e.options.Now(),
	}
}

func (e *Engine) now() metav1.Time { return metav1.NewTime(e.options.Now()) }

// newRunner checks a definition and prepares its queue.
func (e *Engine) newRunner(definition Definition) (*runner, error) {
	resource := definition.Resource()
	if resource.Name == "" || resource.Workers < 1 {
		return nil, fmt.Errorf("definition %T: a resource needs a name and at least one worker", definition)
	}
	gvk, err := e.options.Local.GroupVersionKindFor(resource.Local.New())
	if err != nil {
		return nil, fmt.Errorf("definition %s: %w", resource.Name, err)
	}
	if resource.LeaderOnly && resource.LocalFields != nil {
		return nil, fmt.Errorf("definition %s: LeaderOnly and LocalFields exclude each other", resource.Name)
	}
	if resource.LocalFields != nil && resource.LocalFieldsOf == nil {
		return nil, fmt.Errorf("definition %s: LocalFields needs LocalFieldsOf", resource.Name)
	}
	if err := e.checkKinds(resource); err != nil {
		return nil, fmt.Errorf("definition %s: %w", resource.Name, err)
	}
	// A counter that begins with its first panic shows no increase.
	e.metrics.panics.WithLabelValues(resource.Name)
	r := &runner{
		engine:     e,
		definition: definition,
		resource:   resource,
		apiVersion: gvk.GroupVersion().String(),
		kind:       gvk.Kind,
		queue:      newQueue(resource.Name, e.options.Now),
		states:     newStates(),
		recorder:   e.options.Recorder("liqo-" + resource.Name + "-reflection"),
	}
	r.selections = r.newSelections()
	return r, nil
}

// checkKinds returns an error for a kind that the clients do not know.
func (e *Engine) checkKinds(resource Resource) error {
	local, remote := []Kind{namespaceMapKind, resource.Local}, []Kind{resource.Remote}
	for i := range resource.Related {
		if resource.Related[i].IsRemote {
			remote = append(remote, resource.Related[i].Kind)
		} else {
			local = append(local, resource.Related[i].Kind)
		}
	}
	if resource.Dependent != nil {
		remote = append(remote, *resource.Dependent)
	}
	var errs []error
	check := func(c client.Client, kinds []Kind) {
		for _, kind := range kinds {
			_, err := c.GroupVersionKindFor(kind.New())
			errs = append(errs, err)
		}
	}
	check(e.options.Local, local)
	check(e.options.Remote, remote)
	return errors.Join(errs...)
}
