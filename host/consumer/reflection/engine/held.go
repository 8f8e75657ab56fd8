package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// held is why the caches of one resource in one namespace cannot be filled until somebody
// acts: one cause for each cache.
type held struct {
	mu     sync.Mutex
	causes []string
}

// set notes the cause of a cache, "" for none, and reports whether there is another one to
// tell now: of several, one is told after the other.
func (h *held) set(number int, cause string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	had := h.first()
	if missing := number + 1 - len(h.causes); missing > 0 {
		h.causes = append(h.causes, make([]string, missing)...)
	}
	h.causes[number] = cause
	now := h.first()
	return now != "" && now != had
}

func (h *held) cause() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.first()
}

func (h *held) first() string {
	if i := slices.IndexFunc(h.causes, func(cause string) bool { return cause != "" }); i >= 0 {
		return h.causes[i]
	}
	return ""
}

// read notes how filling a cache went, there in the provider or here. What is refused
// holds this resource in this namespace, and nothing else; the owners of the local
// objects are told.
func (r *runner) read(ctx context.Context, ns *namespace, end *ends, number int, there bool, err error) {
	if end.active.Load() || ctx.Err() != nil {
		return
	}
	o := &r.engine.options
	cause := ""
	switch {
	case !refusesReading(err):
	case there:
		cause = fmt.Sprintf("Reflection to cluster %s waits: the operator of that cluster must let cluster %s read namespace %s there: %s",
			o.ProviderClusterID, o.HomeClusterID, ns.remote, err)
	default:
		cause = fmt.Sprintf("Reflection to cluster %s waits: the operator of this cluster must grant virtual node %s a missing right: %s",
			o.ProviderClusterID, o.NodeName, err)
	}
	if !end.held.set(number, cause) {
		return
	}
	logr.FromContextOrDiscard(ctx).Info("A namespace cannot be read, so nothing of this resource is reflected in it",
		"resource", r.resource.Name, "namespace", ns.local, "remoteNamespace", ns.remote, "reason", end.held.cause())
	for _, name := range end.local.Names(ns.local) {
		r.queue.Add(Key{Namespace: ns.local, Name: name.Name})
	}
}

// tellHeld tells the owner of an object why nothing becomes of it, if somebody must act.
func (r *runner) tellHeld(key Key, end *ends) {
	cause, local := end.held.cause(), end.local.Get(key.Namespace, key.Name)
	if cause == "" || local == nil {
		return
	}
	if skipped, _, err := skip(r.policy(local), local); skipped || err != nil {
		return // an error is told with the decision
	}
	r.announce(Input{Key: key, Local: local}, RecordEvent{Type: EventWarning, Reason: ReasonFailedReflection, Message: cause})
}

// refusesReading reports whether reading failed for a reason that does not end by itself: a
// missing right, or a kind that is not served.
func refusesReading(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}
