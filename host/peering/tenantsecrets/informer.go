package tenantsecrets

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// errNoIndexers is returned by AddIndexers.
var errNoIndexers = errors.New("adding an index of Secrets: not supported in tenant namespaces")

// review reports whether the process may list Secrets in a namespace.
type review func(ctx context.Context, namespace string) (bool, error)

func reviewer(reviews authorizationclient.SelfSubjectAccessReviewInterface) review {
	return func(ctx context.Context, namespace string) (bool, error) {
		answer, err := reviews.Create(ctx, &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "list", Resource: "secrets"},
		}}, metav1.CreateOptions{})
		if err != nil {
			return false, fmt.Errorf("asking for the right to list Secrets in namespace %q: %w", namespace, err)
		}
		return answer.Status.Allowed, nil
	}
}

// informer is the informer of Secrets in all tenant namespaces: it passes the handlers on to
// the informers of the namespaces that there are, and of those that follow.
type informer struct {
	open   func(namespace string) (cache.Cache, error)
	review review

	mu         sync.Mutex
	base       context.Context // That of start.
	running    sync.WaitGroup
	namespaces func() bool // Reports whether the tenant namespaces are known.
	tenants    map[string]*tenant
	handlers   map[*registration]struct{}
}

var _ cache.Informer = (*informer)(nil)

func newInformer(open func(string) (cache.Cache, error), review review) *informer {
	return &informer{open: open, review: review, tenants: map[string]*tenant{}, handlers: map[*registration]struct{}{}}
}

// start sets the context of the watches. It is called before want.
func (i *informer) start(ctx context.Context) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.base = ctx
}

// knowsNamespaces sets the function that reports whether want was called for each namespace that
// existed at the start.
func (i *informer) knowsNamespaces(hasSynced func() bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.namespaces = hasSynced
}

// stop ends the watches with their context.
func (i *informer) stop(cancel context.CancelFunc) {
	i.set(cancel) // No watch starts after it.
	i.running.Wait()
}

// want starts the watch in a namespace, or ends it.
func (i *informer) want(namespace string, wanted bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	t := i.tenants[namespace]
	switch {
	case t == nil && wanted && i.base.Err() == nil:
		t = &tenant{namespace: namespace, wanted: true, wake: make(chan struct{}, 1)}
		i.tenants[namespace] = t
		i.running.Go(func() { i.run(i.base, t) })
	case t != nil && t.wanted != wanted:
		t.wanted = wanted
		t.notify()
	}
}

// caches returns the caches of the namespaces that are ready.
func (i *informer) caches() map[string]cache.Cache {
	i.mu.Lock()
	defer i.mu.Unlock()
	ready := make(map[string]cache.Cache, len(i.tenants))
	for name, t := range i.tenants {
		if t.cache != nil {
			ready[name] = t.cache
		}
	}
	return ready
}

// AddEventHandler implements cache.Informer.
func (i *informer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod implements cache.Informer.
func (i *informer) AddEventHandlerWithResyncPeriod(handler toolscache.ResourceEventHandler, period time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{ResyncPeriod: &period})
}

// AddEventHandlerWithOptions implements cache.Informer.
func (i *informer) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler, options toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	r := &registration{informer: i, handler: handler, options: options, parts: map[*tenant]toolscache.ResourceEventHandlerRegistration{}}
	for _, t := range i.tenants {
		if t.cache == nil {
			continue
		}
		if err := r.add(t); err != nil {
			return nil, err
		}
	}
	i.handlers[r] = struct{}{}
	return r, nil
}

// RemoveEventHandler implements cache.Informer.
func (i *informer) RemoveEventHandler(handle toolscache.ResourceEventHandlerRegistration) error {
	r, ok := handle.(*registration)
	if !ok {
		return fmt.Errorf("removing a handler of Secrets: unknown registration %T", handle)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.handlers, r)
	var errs []error
	for t := range r.parts {
		errs = append(errs, r.remove(t))
	}
	return errors.Join(errs...)
}

// AddIndexers implements cache.Informer. There is no index of all namespaces.
func (i *informer) AddIndexers(toolscache.Indexers) error { return errNoIndexers }

// HasSynced implements cache.Informer. A namespace in which the process has no right yet does not
// count: its Secrets follow as new ones.
func (i *informer) HasSynced() bool {
	return i.allSynced(func(t *tenant) bool { return t.cache != nil })
}

func (i *informer) allSynced(hasSynced func(*tenant) bool) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.namespaces == nil || !i.namespaces() {
		return false
	}
	for _, t := range i.tenants {
		if !t.denied && !hasSynced(t) {
			return false
		}
	}
	return true
}

// HasSyncedChecker implements cache.Informer.
func (i *informer) HasSyncedChecker() toolscache.DoneChecker { return i.checker(i.HasSynced) }

// IsStopped implements cache.Informer.
func (i *informer) IsStopped() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.base != nil && i.base.Err() != nil
}

// registration is a handler in all tenant namespaces. The informer's mutex guards parts.
type registration struct {
	informer *informer
	handler  toolscache.ResourceEventHandler
	options  toolscache.HandlerOptions
	parts    map[*tenant]toolscache.ResourceEventHandlerRegistration
}

func (r *registration) add(t *tenant) error {
	part, err := t.informer.AddEventHandlerWithOptions(r.handler, r.options)
	if err != nil {
		return fmt.Errorf("adding a handler of Secrets in namespace %q: %w", t.namespace, err)
	}
	r.parts[t] = part
	return nil
}

func (r *registration) remove(t *tenant) error {
	part, ok := r.parts[t]
	if !ok {
		return nil
	}
	delete(r.parts, t)
	if err := t.informer.RemoveEventHandler(part); err != nil {
		return fmt.Errorf("removing a handler of Secrets in namespace %q: %w", t.namespace, err)
	}
	return nil
}

// HasSynced implements cache.ResourceEventHandlerRegistration.
func (r *registration) HasSynced() bool {
	return r.informer.allSynced(func(t *tenant) bool {
		part, ok := r.parts[t]
		return ok && part.HasSynced()
	})
}

// HasSyncedChecker implements cache.ResourceEventHandlerRegistration.
func (r *registration) HasSyncedChecker() toolscache.DoneChecker {
	return r.informer.checker(r.HasSynced)
}
