package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// runner runs one definition.
type runner struct {
	engine           *Engine
	definition       Definition
	resource         Resource
	apiVersion, kind string
	queue            *queue
	states           *states
	recorder         Recorder
	selections       selections
	// local is set, by Run, for resources whose objects are selected by their fields.
	local *store
	// isStarted belongs to the goroutine of Run.
	isStarted bool
}

// start starts the workers unless they run; they end with the queue. Those of resources with
// LeaderOnly start when the engine leads: most virtual nodes never do.
func (r *runner) start(ctx context.Context, group *sync.WaitGroup) {
	if r.isStarted {
		return
	}
	r.isStarted = true
	for range r.resource.Workers {
		group.Go(func() {
			for r.work(ctx) {
			}
		})
	}
}

// work handles one key; false means that the queue is shut down.
func (r *runner) work(ctx context.Context) bool {
	key, shutdown := r.queue.Get()
	if shutdown {
		return false
	}
	defer r.queue.Done(key)
	log := logr.FromContextOrDiscard(ctx).WithValues("resource", r.resource.Name, "namespace", key.Namespace, "name", key.Name)
	in, since := r.queue.Taken(key)
	again, err := r.reconcileRecovering(logr.NewContext(ctx, log), key)
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, errStale):
		r.queue.AddRateLimited(key)
	case err != nil:
		r.engine.countReflected(key.Namespace, r.resource.Name, err)
		log.Error(err, "Reflection failed, requeueing", "retries", r.queue.NumRequeues(key))
		r.queue.AddRateLimited(key)
	default:
		r.engine.countReflected(key.Namespace, r.resource.Name, nil)
		r.engine.metrics.observeLag(r.resource.Name, in == laneLocal, r.engine.options.Now().Sub(since))
		r.queue.Forget(key)
		if again > 0 {
			r.queue.AddAfter(key, again)
		}
	}
	return true
}

// reconcileRecovering calls reconcile and turns a panic into an error, so that an object that
// triggers a bug does not stop the reflection of the others.
func (r *runner) reconcileRecovering(ctx context.Context, key Key) (again time.Duration, err error) {
	defer func() {
		cause := recover()
		if cause == nil {
			return
		}
		r.engine.metrics.panics.WithLabelValues(r.resource.Name).Inc()
		err = fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
		r.recordOnce(Input{Key: key, Local: r.engine.LocalObject(r.resource.Name, key.Namespace, key.Name)}, RecordEvent{
			Type: EventWarning, Reason: ReasonFailedReflection,
			Message: fmt.Sprintf("Internal error while reflecting to cluster %s. See the virtual kubelet's log and report it: %v",
				r.engine.options.ProviderClusterID, cause),
		})
	}()
	return r.reconcile(ctx, key)
}

// reconcile observes, decides, and executes the decision.
func (r *runner) reconcile(ctx context.Context, key Key) (again time.Duration, err error) {
	ns, caches, settled := r.engine.lookUp(key.Namespace, r)
	switch {
	case ns == nil:
		return r.fallback(ctx, key, settled)
	case caches == nil:
		return 0, nil // not handled here
	case !caches.active.Load():
		r.recordReadError(key, caches)
		return 0, nil // its activation enqueues everything
	}
	// The end of the namespace or of the leadership cancels the requests.
	ctx = logr.NewContext(caches.ctx, logr.FromContextOrDiscard(ctx))
	in, err := r.gather(ctx, key, ns, caches)
	if err != nil {
		return 0, r.recordError(in, &decisionError{err})
	}
	if in.Local == nil && in.Remote == nil && in.Dependent == nil {
		r.states.forget(key)
		if in.IsDependentLost {
			caches.dependent.forgetLost(ns.remote, r.toRemote(key.Name))
		}
		return 0, nil
	}
	actions, err := r.decide(ctx, in)
	if err != nil {
		return 0, err
	}
	x := &execution{runner: r, in: in, caches: caches, local: caches.local, remote: caches.remote}
	again, err = x.run(ctx, actions)
	if caches.ctx.Err() != nil {
		return 0, nil // canceled
	}
	if err != nil {
		return 0, r.recordError(in, err)
	}
	return again, nil
}

// decideFirst carries out the decision of another resource about the key. Its worker may decide about the key at the
// same time: requests have preconditions.
func (x *execution) decideFirst(ctx context.Context, a DecideFirst) error {
	at := slices.IndexFunc(x.engine.runners, func(r *runner) bool { return r.resource.Name == a.Resource })
	if at < 0 {
		return nil
	}
	r, key := x.engine.runners[at], x.in.Key
	ns, caches, _ := x.engine.lookUp(key.Namespace, r)
	if caches == nil || !caches.active.Load() {
		return errStale
	}
	in, err := r.gather(ctx, key, ns, caches)
	if err != nil {
		return &decisionError{err}
	}
	in.IsAwaited = true
	actions, err := r.decide(ctx, in)
	if err != nil {
		return err
	}
	first := &execution{runner: r, in: in, caches: caches, local: caches.local, remote: caches.remote}
	again, err := first.run(ctx, actions)
	if again > 0 {
		r.queue.AddAfter(key, again)
	}
	return err
}

// decide returns the actions of the definition. An absence that they rely on is confirmed.
func (r *runner) decide(ctx context.Context, in Input) ([]Action, error) {
	actions, err := r.definition.Decide(in)
	switch {
	case err != nil:
		return nil, r.recordError(in, &decisionError{err})
	case in.Local != nil || r.resource.LocalUnwatched || keeps(actions):
		return actions, nil
	}
	return actions, r.confirmAbsence(ctx, in.Key)
}

// fallback handles an object whose namespace is not offloaded. Before the mapped namespaces are
// known it does nothing: markSettledLocked enqueues the objects of the others.
func (r *runner) fallback(ctx context.Context, key Key, settled bool) (time.Duration, error) {
	definition, ok := r.definition.(Fallback)
	if !ok || r.local == nil || !settled {
		return 0, nil
	}
	local := r.local.Get(key.Namespace, key.Name)
	if local == nil {
		r.states.forget(key)
		return 0, nil
	}
	in := Input{Key: key, Facts: r.engine.facts(""), Local: local, Memory: r.states.get(key).memory}
	in.Facts.MappingFails, in.Facts.MappingStarts = request(r.engine.maps.List(""), key.Namespace)
	actions, err := definition.Fallback(in)
	if err != nil {
		return 0, r.recordError(in, &decisionError{err})
	}
	x := &execution{runner: r, in: in, local: r.local}
	again, err := x.run(ctx, actions)
	if apierrors.IsForbidden(err) {
		// The manager handles pods in namespaces without access (package access).
		logr.FromContextOrDiscard(ctx).V(1).Info("No access to a namespace that is not offloaded", "reason", err.Error())
		return 0, nil
	}
	if err != nil {
		return 0, r.recordError(in, err)
	}
	return again, nil
}

// gather returns the input of a decision.
func (r *runner) gather(ctx context.Context, key Key, ns *namespace, caches *namespaceCaches) (Input, error) {
	in := Input{
		Key:    key,
		Facts:  r.engine.facts(ns.remote),
		Local:  caches.local.Get(key.Namespace, key.Name),
		Remote: caches.remote.Get(ns.remote, r.toRemote(key.Name)),
		Memory: r.states.get(key).memory, Related: r.related(key, caches),
		RemoteNamespaceOf: r.engine.RemoteNamespace,
	}
	in.Facts.IsWithdrawn, in.Facts.IsEnding = ns.isWithdrawn.Load(), ns.isEnding.Load()
	if caches.dependent != nil {
		in.Facts.RemoteUnknown = caches.isUnknown(&r.engine.link)
		in.Dependent = caches.dependent.Get(ns.remote, r.toRemote(key.Name))
		in.IsDependentLost = in.Dependent == nil && caches.dependent.isLost(ns.remote, r.toRemote(key.Name))
	}
	source := in.Local
	if r.resource.LocalUnwatched {
		source = in.Remote
	}
	if source == nil {
		return in, nil
	}
	r.clearAbsence(key)
	var err error
	if in.Skipped, in.SkipAnnotated, err = r.skip(in, source); err != nil {
		return in, err
	}
	if r.resource.Filter && !in.Skipped {
		in.Labels, in.Annotations, err = r.engine.options.Filter(ctx, r.apiVersion, r.kind, in.Local, in.Remote)
	}
	return in, err
}

// related returns the lookups of Input.Related.
func (r *runner) related(key Key, caches *namespaceCaches) []func(string) client.Object {
	var lookups []func(string) client.Object
	for i, related := range caches.related {
		namespace := key.Namespace
		switch {
		case r.resource.Related[i].Kind.ClusterScoped:
			namespace = ""
		case r.resource.Related[i].IsRemote:
			namespace = caches.ns.remote
		}
		matches := r.resource.Related[i].Matches
		lookups = append(lookups, func(value string) client.Object {
			if matches == nil {
				return related.Get(namespace, value)
			}
			for _, object := range related.List(namespace) {
				if matches(object, value) {
					return object
				}
			}
			return nil
		})
	}
	return lookups
}

// skip evaluates the reflection policy of the source object of an input.
func (r *runner) skip(in Input, source client.Object) (skipped, annotated bool, err error) {
	policy, object := r.resource.Policy, source
	if chooser, ok := r.definition.(PolicyChooser); ok {
		policy, object = chooser.ReflectionPolicy(in)
	}
	skipped, annotated, err = skip(policy, object)
	return skipped, annotated && object == source, err
}

func (r *runner) toRemote(name string) string {
	if remapper, ok := r.definition.(Remapper); ok {
		return remapper.ToRemote(name)
	}
	return name
}

func (r *runner) toLocal(name string, object func() metav1.Object) string {
	if remapper, ok := r.definition.(Remapper); ok {
		return remapper.ToLocal(name, object)
	}
	return name
}
