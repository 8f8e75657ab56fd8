package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// mapRetry is the pause before a failed read of the NamespaceMap is repeated.
const mapRetry = time.Second

// confirmAbsence returns an error unless the API server has no local object of a key. The
// cache does not prove that: its list may be stale. The API server is asked once for each
// deletion.
func (r *runner) confirmAbsence(ctx context.Context, key Key) error {
	if r.states.get(key).absent {
		return nil
	}
	object := r.resource.Local.New()
	err := r.engine.options.Local.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: key.Name}, object)
	r.engine.metrics.observe(r.resource.Name, directionOut, "get", client.IgnoreNotFound(err))
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("reading local %s, which the cache does not hold: %w", r.resource.Name, err)
	case r.resource.LocalFields == nil || r.resource.LocalFields.Matches(r.resource.LocalFieldsOf(object)):
		return fmt.Errorf("%w: the cache does not hold local %s", errStale, r.resource.Name)
	}
	r.states.update(key, func(s *keyState) { s.absent = true })
	return nil
}

// keeps reports whether actions change nothing, as those about a remote object that another definition
// manages, for example the Secret of a token.
func keeps(actions []Action) bool {
	return !slices.ContainsFunc(actions, func(action Action) bool {
		_, isKept := action.(Keep)
		return !isKept
	})
}

// clearAbsence records that a local object exists.
func (r *runner) clearAbsence(key Key) {
	if r.states.get(key).absent {
		r.states.update(key, func(s *keyState) { s.absent = false })
	}
}

// wouldStop reports whether the mappings in the cache would stop or withdraw the reflection of a
// namespace, or are the first ones. Then they are read from the API server: the cache may
// be stale, and pods of a namespace that is not offloaded are aborted.
func (e *Engine) wouldStop(wanted map[string]target) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	for local, ns := range e.namespaces {
		if to := wanted[local]; to.remote != ns.remote || to.isWithdrawn && !ns.isWithdrawn.Load() {
			return true
		}
	}
	return !e.settled
}

// readMapping reads the mapping from the API server. After an error, the current mapping
// stays in force and is read again soon.
func (e *Engine) readMapping(ctx context.Context) (map[string]target, bool) {
	list, options := namespaceMapKind.NewList(), e.selectMaps()
	err := e.options.Local.List(ctx, list, &options)
	var items []runtime.Object
	if err == nil {
		items, err = meta.ExtractList(list)
	}
	if err != nil {
		if ctx.Err() == nil {
			logr.FromContextOrDiscard(ctx).Error(err, "Reading the NamespaceMap failed, trying again")
			time.AfterFunc(mapRetry, e.wake)
		}
		return nil, false
	}
	objects := make([]client.Object, 0, len(items))
	for _, item := range items {
		if object, ok := item.(client.Object); ok {
			objects = append(objects, object)
		}
	}
	return mapping(ctx, objects, e.followed())
}
