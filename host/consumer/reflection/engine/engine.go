// Package engine is the reflector: it keeps objects of the consumer and of the provider
// in step, for every resource that a [Definition] describes. The engine owns everything
// that the resources have in common: informers, keys, the queue, ownership, the skip and
// allow annotations, requests with their preconditions, events, metrics and back-off.
// What is to be done is decided by the definitions, which send nothing themselves.
//
// One informer per kind watches the consumer, shared by the definitions; Secrets have one
// per mapped namespace, since the virtual kubelet may not read others. The provider is
// watched per mapped namespace, since the consumer's rights there are per namespace. A
// namespace is mapped while the NamespaceMap of this provider says that the provider
// accepted it.
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// FieldManager owns the fields that reflection writes, on both sides (wire 7.4).
const FieldManager = offloadingv1beta1.ReflectionFieldManager

// Options are what an [Engine] needs. All but Filter, Mutate, NodeIP,
// Registerer and ResyncPeriod are required.
type Options struct {
	// Local and Remote are uncached typed clients of both clusters. Their rate limits
	// and content types are the caller's business.
	Local, Remote client.WithWatch
	Definitions   []Definition
	// HomeClusterID, ProviderClusterID and NodeName say whose reflection this is.
	HomeClusterID, ProviderClusterID, NodeName string
	NodeIP                                     string
	// TenantNamespace is the local namespace that holds the provider's NamespaceMap.
	TenantNamespace string
	// Filter is asked for the resources that want it; without it, everything passes.
	Filter MetadataFilter
	// Mutate is asked about every object that is applied; without it, all are sent as they
	// were forged. Pods are created, not applied, and their definition asks on its own.
	Mutate ResourceMutation
	// Recorder returns the recorder of events of a component, for example
	// "liqo-pod-reflection" (wire 4.1).
	Recorder   func(component string) Recorder
	Registerer prometheus.Registerer
	// ResyncPeriod is how often every object is decided again; 0 is never.
	ResyncPeriod time.Duration
	Now          func() time.Time
}

// Engine runs definitions. Its methods are safe for concurrent use.
type Engine struct {
	options  Options
	runners  []*runner
	metrics  *metrics
	revision atomic.Uint64
	link     reachability

	maps *store
	kick chan struct{}
	// informers are set by Run.
	informers *informers
	// revertBase is the constant, shorter in tests.
	revertBase time.Duration

	mu         sync.RWMutex
	namespaces map[string]*namespace
	// settled is true once it is known which namespaces are mapped; until then no pod is
	// told that its namespace is not offloaded.
	settled bool
	// leading says that this engine handles what is for the leader only.
	leading bool
}

// New checks the options. Nothing is sent before Run.
func New(options Options) (*Engine, error) {
	switch {
	case options.Local == nil || options.Remote == nil:
		return nil, errors.New("reflection needs a local and a remote client")
	case options.HomeClusterID == "" || options.ProviderClusterID == "" || options.NodeName == "":
		return nil, errors.New("reflection needs the IDs of both clusters and the name of the virtual node")
	case options.TenantNamespace == "":
		return nil, errors.New("reflection needs the tenant namespace, where the NamespaceMap is")
	case options.Recorder == nil || options.Now == nil:
		return nil, errors.New("reflection needs an event recorder and a clock")
	}
	if options.Filter == nil {
		options.Filter = func(_ context.Context, _, _ string, local, _ client.Object) (map[string]string, map[string]string, error) {
			return local.GetLabels(), local.GetAnnotations(), nil
		}
	}
	m, err := newMetrics(options.Registerer)
	if err != nil {
		return nil, err
	}
	e := &Engine{options: options, metrics: m, namespaces: map[string]*namespace{}, kick: make(chan struct{}, 1), revertBase: revertBase}
	for _, definition := range options.Definitions {
		r, err := e.newRunner(definition)
		if err != nil {
			return nil, err
		}
		e.runners = append(e.runners, r)
	}
	return e, nil
}

// Run reflects until the context ends, then waits for everything that it started. It
// returns the context's cause only when that is not a plain cancellation.
func (e *Engine) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	e.informers = newInformers(ctx, &group)
	if !waitFor(ctx, e.startInformers(ctx)...) {
		return nil
	}
	logr.FromContextOrDiscard(ctx).Info("Reflecting", "remoteCluster", e.options.ProviderClusterID, "node", e.options.NodeName)
	for _, r := range e.runners {
		r.start(ctx, &group)
	}
	if e.options.ResyncPeriod > 0 {
		group.Go(func() { e.resync(ctx, e.options.ResyncPeriod) })
	}
	e.followNamespaces(ctx, &group)
	return nil
}

// startInformers starts the informers that do not depend on what is mapped.
func (e *Engine) startInformers(ctx context.Context) (synced []<-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps := selection{client: e.options.Local, kind: namespaceMapKind, options: e.selectMaps()}
	e.maps = e.informers.acquire(ctx, maps, &subscriber{changed: func(client.Object) { e.wake() }})
	synced = append(synced, e.maps.synced)
	for _, r := range e.runners {
		if r.resource.LocalFields == nil {
			continue
		}
		r.local = e.informers.acquire(ctx, r.localSelection(""), &subscriber{changed: func(object client.Object) {
			r.queue.AddTo(laneLocal, Key{Namespace: object.GetNamespace(), Name: object.GetName()})
		}})
		synced = append(synced, r.local.synced)
	}
	return synced
}

// selectMaps selects the NamespaceMap of the provider.
func (e *Engine) selectMaps() client.ListOptions {
	return client.ListOptions{Namespace: e.options.TenantNamespace, LabelSelector: labels.SelectorFromSet(labels.Set{
		liqocorev1beta1.RemoteClusterIDLabel: e.options.ProviderClusterID,
		// The peer's own map, replicated here when both offload to each other, has the
		// first label too, and its mapping is the inverse of ours (T55).
		liqocorev1beta1.RemoteIDLabel: e.options.ProviderClusterID,
	})}
}

// PoliciesChanged makes every object be decided again, with the next policy revision.
func (e *Engine) PoliciesChanged() {
	e.revision.Add(1)
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, ns := range e.namespaces {
		for r, end := range ns.ends {
			if end.active.Load() {
				r.keys(ns, end, func(r *runner, key Key) { r.queue.AddTo(laneBackground, key) })
			}
		}
	}
}

// RemoteNamespace returns what a local namespace is mapped to, and whether it is.
func (e *Engine) RemoteNamespace(local string) (string, bool) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	ns := e.namespaces[local]
	if ns == nil {
		return "", false
	}
	return ns.remote, true
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
			if end := ns.ends[r]; end != nil {
				out = append(out, end.local.List(local)...)
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
		if ns := e.namespaces[namespace]; ns != nil && ns.ends[r] != nil {
			return ns.ends[r].local.Get(namespace, name)
		}
	}
	return nil
}

// Settled reports whether it is known which namespaces are mapped. It does not tell
// whether they can be read: one that cannot holds nobody but its own objects.
func (e *Engine) Settled() bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.settled
}

// place returns a namespace that is followed and what this engine handles of a resource
// there; both may be nil.
func (e *Engine) place(local string, r *runner) (*namespace, *ends) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	ns := e.namespaces[local]
	if ns == nil {
		return nil, nil
	}
	return ns, ns.ends[r]
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
		return nil, fmt.Errorf("definition %s: what is selected for one virtual node cannot be left to the leader of all", resource.Name)
	}
	if resource.LocalFields != nil && resource.LocalFieldsOf == nil {
		return nil, fmt.Errorf("definition %s: LocalFields needs LocalFieldsOf", resource.Name)
	}
	if err := e.checkKinds(resource); err != nil {
		return nil, fmt.Errorf("definition %s: %w", resource.Name, err)
	}
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
	return r, nil
}

// checkKinds returns an error for a kind that the clients do not know.
func (e *Engine) checkKinds(resource Resource) error {
	local, remote := []Kind{namespaceMapKind, resource.Local}, []Kind{resource.Remote}
	for i := range resource.Related {
		local = append(local, resource.Related[i].Kind)
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
