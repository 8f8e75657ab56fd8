package engine

import (
	"fmt"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// readErrors are the permanent errors of the caches of one resource in one namespace, by
// the number of the cache.
type readErrors struct {
	mu     sync.Mutex
	causes []string
}

// set sets the error of a cache, "" for none, and reports whether the first error changed.
// Of several errors, events show the first.
func (e *readErrors) set(number int, cause string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if cause == "" && number >= len(e.causes) {
		return false
	}
	had := e.first()
	if missing := number + 1 - len(e.causes); missing > 0 {
		e.causes = append(e.causes, make([]string, missing)...)
	}
	e.causes[number] = cause
	now := e.first()
	return now != "" && now != had
}

func (e *readErrors) cause() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.first()
}

func (e *readErrors) first() string {
	if i := slices.IndexFunc(e.causes, func(cause string) bool { return cause != "" }); i >= 0 {
		return e.causes[i]
	}
	return ""
}

// describeReadError says who must do what about an error of filling a cache; "" if it may pass by itself.
func (r *runner) describeReadError(of *subscriber, err error) string {
	o, ns := &r.engine.options, of.caches.ns
	switch {
	case of.isRemote && IsUnreadable(err):
		return fmt.Sprintf("Reflection to cluster %s waits: the operator of that cluster must correct an object in namespace %s there: %s",
			o.ProviderClusterID, ns.remote, err)
	case of.isRemote && isTooMuch(err):
		return fmt.Sprintf("Reflection to cluster %s waits: the operator of that cluster must delete what is not needed in namespace %s there, "+
			"or raise the memory limit of the virtual kubelet here: %s", o.ProviderClusterID, ns.remote, err)
	case !isPermanent(err):
		return ""
	case of.isRemote && ns.isEnding.Load():
		return fmt.Sprintf("Reflection to cluster %s waits: that cluster deletes namespace %s, and with it the right to read there. It goes on once the namespace is created again.",
			o.ProviderClusterID, ns.remote)
	case of.isRemote:
		return fmt.Sprintf("Reflection to cluster %s waits: the operator of that cluster must let cluster %s read namespace %s there: %s",
			o.ProviderClusterID, o.HomeClusterID, ns.remote, err)
	default:
		return fmt.Sprintf("Reflection to cluster %s waits: the operator of this cluster must grant virtual node %s a missing right: %s",
			o.ProviderClusterID, o.NodeName, err)
	}
}

// observeRead records the result of filling a cache. A permanent error blocks this resource
// in this namespace only, and is recorded as an event on the local objects.
func (r *runner) observeRead(of *subscriber, err error) {
	caches, ns := of.caches, of.caches.ns
	if report := r.engine.options.Report; report != nil && of.isRemote && (isTooMuch(err) || IsUnreadable(err)) && caches.ctx.Err() == nil {
		report(caches.ctx, fmt.Errorf("reading the %s of namespace %s in cluster %s: %w", r.resource.Name, ns.remote, r.engine.options.ProviderClusterID, err))
	}
	if caches.active.Load() || caches.ctx.Err() != nil {
		return
	}
	cause := r.describeReadError(of, err)
	if !caches.readErrors.set(of.number, cause) {
		return
	}
	logr.FromContextOrDiscard(caches.ctx).Info("Objects cannot be read, the resource is not reflected in this namespace",
		"resource", r.resource.Name, "namespace", ns.local, "remoteNamespace", ns.remote, "reason", caches.readErrors.cause())
	for _, name := range caches.local.Names(ns.local) {
		r.queue.Add(Key{Namespace: ns.local, Name: name.Name})
	}
}

// recordReadError records the permanent read error, if there is one, on a local object.
func (r *runner) recordReadError(key Key, caches *namespaceCaches) {
	cause, local := caches.readErrors.cause(), caches.local.Get(key.Namespace, key.Name)
	if cause == "" || local == nil {
		return
	}
	in := Input{Key: key, Local: local, Related: r.related(key, caches)}
	if skipped, _, err := r.skip(in, local); skipped || err != nil {
		return // an error is recorded with the decision
	}
	r.recordOnce(in, RecordEvent{Type: EventWarning, Reason: ReasonFailedReflection, Message: cause})
}

// isPermanent reports whether an operator must resolve a read error: a missing right, or a
// kind that is not served.
func isPermanent(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}
