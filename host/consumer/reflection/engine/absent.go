package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// mapRetry is how soon the NamespaceMap is read again after reading it failed.
const mapRetry = time.Second

// confirmAbsent returns an error unless the local object of a key is really gone. The
// cache alone does not prove that: its list may come from an API server that is behind.
// The API server is asked once for each time that an object is missing.
func (r *runner) confirmAbsent(ctx context.Context, key Key) error {
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
		return fmt.Errorf("%w: the cache does not hold local %s", errAgain, r.resource.Name)
	}
	r.states.update(key, func(s *keyState) { s.absent = true })
	return nil
}

// seen forgets that a local object was absent.
func (r *runner) seen(key Key) {
	if r.states.get(key).absent {
		r.states.update(key, func(s *keyState) { s.absent = false })
	}
}

// loses reports whether pods would be ended, or told that their namespace is not
// offloaded, because the cache holds no mapping for it. A cache may be behind.
func (e *Engine) loses(wanted map[string]string) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	for local, ns := range e.namespaces {
		if wanted[local] != ns.remote {
			return true
		}
	}
	return !e.settled
}

// readMapping reads the mapping from the API server. When that fails, what runs goes on
// and the mapping is read again soon.
func (e *Engine) readMapping(ctx context.Context) (map[string]string, bool) {
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
