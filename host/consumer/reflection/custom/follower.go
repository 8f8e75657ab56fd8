// Package custom reflects the kinds that ResourceReflections name. A [Follower] finds out what the
// two API servers serve of a kind and which rights the virtual kubelet has, runs an engine for each
// kind that can be reflected, and reports why the others cannot. The definition of such a kind is
// in package mirror, as those of all copied kinds.
//
// One engine with kinds that come and go would need a lock in every loop over the kinds, and a kind
// that fails would stop the others. The rights of all kinds are two requests for each look
// (SelfSubjectRulesReview); a SelfSubjectAccessReview would be nine for each kind. A difference of the
// schemas is reported and stops nothing: most objects do not use the field, and an additional optional
// field in a newer release would end the reflection.
//
// A report says that there may be remote objects from before the first is created until after the
// last is deleted. A finalizer keeps a deleted ResourceReflection while a report says so. A virtual
// kubelet that loses its rights cannot delete the remote objects.
package custom

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/mirror"
)

const (
	// readyPeriod is how often it is checked whether a kind can still be reflected, and
	// waitingPeriod whether one can be reflected that could not.
	readyPeriod   = 30 * time.Second
	waitingPeriod = 5 * time.Second
	// withdrawPeriod is how often it is checked whether remote objects are gone.
	withdrawPeriod = 2 * time.Second
	// soon is the pause before a step is repeated that usually takes a moment.
	soon = 500 * time.Millisecond
)

// Reflection is the running reflection of one kind: an *engine.Engine.
type Reflection interface {
	Run(ctx context.Context) error
	Lead(leads bool)
	PoliciesChanged()
}

// Options configure a [Follower]. All are required.
type Options struct {
	Local, Remote *End
	// ProviderClusterID is the provider of this virtual kubelet, Component the name under which
	// it reports.
	ProviderClusterID, Component string
	// RemoteSelector selects the remote objects of this reflection.
	RemoteSelector string
	// List returns the ResourceReflections.
	List func(context.Context) ([]policyv1alpha1.ResourceReflection, error)
	// Namespaces returns the mapped namespaces, local to remote, and whether they are known.
	Namespaces func() (map[string]string, bool)
	// Report replaces the observations of this virtual kubelet.
	Report func(context.Context, []policyv1alpha1.ReflectionObservation) error
	// New composes the reflection of a kind.
	New func(kind mirror.CustomResource, policy offloadingv1beta1.ReflectionType) (Reflection, error)
}

// Follower follows the ResourceReflections. Its methods are safe for concurrent use.
type Follower struct {
	options Options
	kick    chan struct{}

	mu      sync.Mutex
	leads   bool
	entries map[types.UID]*entry

	// isReportLost is set until the observations are written again.
	isReportLost atomic.Bool
	// written are the observations that were reported last.
	written    []policyv1alpha1.ReflectionObservation
	hasWritten bool
}

// entry is the state of one ResourceReflection.
type entry struct {
	name          string
	kind          schema.GroupVersionKind
	local, remote served
	observation   policyv1alpha1.ReflectionObservation
	// desired is what should run, nil for nothing.
	desired *desired
	// running is what runs, nil for nothing. The mutex of the Follower guards it.
	running *running
}

// desired describes a reflection. Two that are equal need no restart.
type desired struct {
	kind   mirror.CustomResource
	policy offloadingv1beta1.ReflectionType
}

type running struct {
	desired
	reflection Reflection
	cancel     context.CancelFunc
	done       chan struct{}
}

// New returns a Follower. It sends no request before Run.
func New(options Options) *Follower {
	return &Follower{options: options, kick: make(chan struct{}, 1), entries: map[types.UID]*entry{}}
}

// Changed makes the Follower read the ResourceReflections again.
func (f *Follower) Changed() {
	select {
	case f.kick <- struct{}{}:
	default:
	}
}

// ReportLost makes the Follower report again: its report was deleted.
func (f *Follower) ReportLost() {
	f.isReportLost.Store(true)
	f.Changed()
}

// Lead sets whether this virtual kubelet is the one of its provider that reflects.
func (f *Follower) Lead(leads bool) {
	f.each(func(r Reflection) { r.Lead(leads) }, func() { f.leads = leads })
	f.Changed()
}

// PoliciesChanged decides all objects again.
func (f *Follower) PoliciesChanged() {
	f.each(Reflection.PoliciesChanged, func() {})
}

// each calls visit with every running reflection, after update, under one lock.
func (f *Follower) each(visit func(Reflection), update func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	update()
	for _, e := range f.entries {
		if e.running != nil {
			visit(e.running.reflection)
		}
	}
}

// Run follows the ResourceReflections until the context ends, and then waits for its reflections.
func (f *Follower) Run(ctx context.Context) error {
	defer func() {
		for _, e := range f.entries {
			f.stop(e)
		}
	}()
	for {
		wait, err := f.pass(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			logr.FromContextOrDiscard(ctx).Error(err, "Following ResourceReflections failed, trying again")
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-f.kick:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// pass brings what runs in line with the ResourceReflections, and returns when to check again. A
// reflection starts after it was reported, so that a ResourceReflection is not deleted while
// there may be remote objects.
func (f *Follower) pass(ctx context.Context) (time.Duration, error) {
	list, err := f.options.List(ctx)
	if err != nil {
		return waitingPeriod, err
	}
	if len(list)+len(f.entries) == 0 && !f.hasWritten {
		return readyPeriod, nil
	}
	namespaces, known := f.options.Namespaces()
	if !known {
		return soon, nil
	}
	f.observe(ctx, list, namespaces)
	wait := f.stopAll(ctx, namespaces)
	if err := f.report(ctx); err != nil {
		return soon, err
	}
	for _, e := range f.entries {
		if e.desired == nil || e.running != nil {
			continue
		}
		if err := f.start(ctx, e); err != nil {
			e.observation.Reason, e.observation.Message = ReasonFailed, sentence(err)
			wait = min(wait, waitingPeriod)
		}
	}
	return wait, f.report(ctx)
}

// stopAll stops what is not desired any more or changed, removes the remote objects of
// reflections that are withdrawn, and returns when to check again.
func (f *Follower) stopAll(ctx context.Context, namespaces map[string]string) time.Duration {
	wait := readyPeriod
	for uid, e := range f.entries {
		if e.running != nil && (e.desired == nil || e.running.desired != *e.desired) {
			f.stop(e)
		}
		switch {
		case e.desired != nil:
			e.observation.Reflected = true
		case e.observation.Reason != ReasonWithdrawing:
			wait = min(wait, waitingPeriod)
		default:
			pause := f.withdraw(ctx, e, namespaces)
			if pause == 0 {
				f.remove(uid)
				continue
			}
			wait = min(wait, pause)
		}
	}
	return wait
}

// observe updates the entries from the ResourceReflections and the API servers.
func (f *Follower) observe(ctx context.Context, list []policyv1alpha1.ResourceReflection, namespaces map[string]string) {
	local, unreachable := "", error(nil)
	if len(namespaces) > 0 {
		local = slices.Min(slices.Collect(maps.Keys(namespaces)))
	}
	w := where{local: local, remote: namespaces[local]}
	w.locals, unreachable = f.options.Local.look(ctx, w.local)
	if unreachable == nil {
		w.remotes, unreachable = f.options.Remote.look(ctx, w.remote)
	}
	present := map[types.UID]bool{}
	for i := range list {
		r := &list[i]
		present[r.UID] = true
		e := f.entries[r.UID]
		if e == nil {
			e = &entry{name: r.Name, observation: policyv1alpha1.ReflectionObservation{Reflected: f.hasReflected(r)}}
			f.add(r.UID, e)
		}
		last := e.observation
		e.kind = r.Spec.GroupVersionKind()
		e.observation = policyv1alpha1.ReflectionObservation{Name: r.Name, UID: r.UID, Generation: r.Generation, Reflected: last.Reflected}
		if r.DeletionTimestamp != nil || len(r.Spec.Providers) > 0 && !slices.Contains(r.Spec.Providers, f.options.ProviderClusterID) {
			e.desired = nil
			e.observation.Reason = ReasonWithdrawing
			continue
		}
		err := unreachable
		if err == nil {
			err = f.observeOne(ctx, e, &r.Spec, &w)
		}
		switch {
		case err == nil:
		case e.running != nil: // What runs continues.
			e.observation = last
		default:
			e.observation.Reason, e.observation.Message = ReasonUnreachable, sentence(err)
		}
	}
	for uid, e := range f.entries {
		if !present[uid] { // Its finalizer was removed by hand.
			e.desired = nil
			e.observation.Reason = ReasonWithdrawing
		}
	}
}

// observeOne decides whether a kind can be reflected. After an error, nothing is known.
func (f *Follower) observeOne(ctx context.Context, e *entry, spec *policyv1alpha1.ResourceReflectionSpec, w *where) error {
	local, err := f.options.Local.read(ctx, w.locals, e.kind, e.local)
	if err != nil {
		return err
	}
	remote, err := f.options.Remote.read(ctx, w.remotes, e.kind, e.remote)
	if err != nil {
		return err
	}
	e.local, e.remote = local, remote
	e.observation.Reason, e.observation.Message = diagnose(e.kind, f.options.ProviderClusterID, local, remote)
	if e.observation.Reason != "" {
		e.desired = nil
		return nil
	}
	reportsStatus := spec.Direction != policyv1alpha1.DirectionSpecOnly
	custom := mirror.CustomResource{
		Name: e.name, Kind: e.kind, Plural: local.plural, ReportsStatus: reportsStatus, StatusInObject: !local.hasStatus,
	}
	e.observation.SchemaDifferences = describeDifferences(compareSchemas(local.schema, remote.schema, reportsStatus))
	if message := f.review(custom, w); message != "" {
		e.observation.Reason, e.observation.Message, e.desired = ReasonForbidden, message, nil
		return nil
	}
	e.desired = &desired{kind: custom, policy: offloadingv1beta1.ReflectionType(spec.ReflectionType)}
	return nil
}

// where is a mapped namespace, and what a look at both API servers shows. The rights are the same in
// all mapped namespaces, so those in one are reviewed; there is none at first.
type where struct {
	local, remote   string
	locals, remotes sight
}

// review returns a message about missing rights, or "".
func (f *Follower) review(kind mirror.CustomResource, w *where) string {
	resource := schema.GroupResource{Group: kind.Kind.Group, Resource: kind.Plural}
	var messages []string
	if missing := w.locals.missing(resource, localAccess(kind.ReportsStatus, kind.StatusInObject)); len(missing) > 0 {
		messages = append(messages, forbidden("this cluster", w.local, AggregateToLocal, resource, missing))
	}
	if missing := w.remotes.missing(resource, remoteAccess()); len(missing) > 0 {
		messages = append(messages, forbidden("cluster "+f.options.ProviderClusterID, w.remote, AggregateToRemote, resource, missing))
	}
	return strings.Join(messages, " ")
}

// hasReflected reports whether an earlier process of this virtual kubelet may have left remote
// objects, as it reported.
func (f *Follower) hasReflected(r *policyv1alpha1.ResourceReflection) bool {
	return slices.ContainsFunc(r.Status.VirtualNodes, func(v policyv1alpha1.VirtualNodeReflection) bool {
		return v.Name == f.options.Component && v.Reflected
	})
}

// withdraw deletes the remote objects, if this virtual kubelet leads. It returns when to check
// again whether they are gone, 0 when they are.
func (f *Follower) withdraw(ctx context.Context, e *entry, namespaces map[string]string) time.Duration {
	if !e.observation.Reflected {
		return 0
	}
	f.mu.Lock()
	leads := f.leads
	f.mu.Unlock()
	left, err := f.options.Remote.withdrawKind(ctx, e.kind, slices.Collect(maps.Values(namespaces)), f.options.RemoteSelector, leads)
	switch {
	case err != nil:
		e.observation.Message = sentence(err)
		return waitingPeriod
	case left > 0:
		e.observation.Message = fmt.Sprintf("Remote objects that are still being deleted: %d.", left)
		return withdrawPeriod
	default:
		return 0
	}
}

func (f *Follower) start(ctx context.Context, e *entry) error {
	reflection, err := f.options.New(e.desired.kind, e.desired.policy)
	if err != nil {
		return fmt.Errorf("composing the reflection of %s: %w", e.name, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &running{desired: *e.desired, reflection: reflection, cancel: cancel, done: make(chan struct{})}
	f.mu.Lock()
	reflection.Lead(f.leads)
	e.running = r
	f.mu.Unlock()
	go func() {
		defer close(r.done)
		if err := reflection.Run(ctx); err != nil {
			logr.FromContextOrDiscard(ctx).Error(err, "The reflection of a kind ended", "resourceReflection", e.name)
		}
	}()
	return nil
}

// stop ends a reflection and waits for it.
func (f *Follower) stop(e *entry) {
	f.mu.Lock()
	r := e.running
	e.running = nil
	f.mu.Unlock()
	if r != nil {
		r.cancel()
		<-r.done
	}
}

func (f *Follower) add(uid types.UID, e *entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.entries[uid] = e
}

func (f *Follower) remove(uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.entries, uid)
}

// report writes the observations if they have changed.
func (f *Follower) report(ctx context.Context) error {
	observations := make([]policyv1alpha1.ReflectionObservation, 0, len(f.entries))
	for _, e := range f.entries {
		observations = append(observations, e.observation)
	}
	slices.SortFunc(observations, func(a, b policyv1alpha1.ReflectionObservation) int { return strings.Compare(a.Name, b.Name) })
	isLost := f.isReportLost.Swap(false)
	if f.hasWritten && !isLost && equality.Semantic.DeepEqual(f.written, observations) {
		return nil
	}
	if err := f.options.Report(ctx, observations); err != nil {
		f.isReportLost.Store(isLost)
		return fmt.Errorf("reporting the state of ResourceReflections: %w", err)
	}
	f.written, f.hasWritten = observations, true
	return nil
}

// sentence makes a sentence of an error.
func sentence(err error) string {
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	return strings.ToUpper(text[:1]) + text[1:] + "."
}
