// Package tenantsecrets reads Secrets in tenant namespaces, and in no others: a process that may
// not read all Secrets of the cluster cannot have one watch for them. Each tenant namespace has
// a watch of its own, which starts when the process has the right to it there. One informer has
// the Secrets of all of them.
package tenantsecrets

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// ErrNotReady is returned for Secrets of a tenant namespace that are not read yet, since the
// process gets its right there a moment after the namespace is created.
var ErrNotReady = errors.New("no right to read Secrets in this tenant namespace yet")

// Cache is a cache that has the Secrets of tenant namespaces. It finds these namespaces in the
// cache of all other kinds.
type Cache struct {
	cache.Cache
	watcher *watcher
}

// New creates a Cache. It is a cache.NewCacheFunc.
func New(config *rest.Config, options cache.Options) (cache.Cache, error) {
	core, err := coreclient.NewForConfigAndClient(config, options.HTTPClient)
	if err != nil {
		return nil, fmt.Errorf("creating the client of Secrets: %w", err)
	}
	reviews, err := authorizationclient.NewForConfigAndClient(config, options.HTTPClient)
	if err != nil {
		return nil, fmt.Errorf("creating the client of access reviews: %w", err)
	}
	w := newWatcher(core.RESTClient(), reviews.SelfSubjectAccessReviews())
	newInformer := options.NewInformer
	if newInformer == nil {
		newInformer = toolscache.NewSharedIndexInformer
	}
	options.NewInformer = func(lw toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		if _, ok := object.(*corev1.Secret); ok {
			return toolscache.NewSharedIndexInformer(w.listerWatcher(), object, resync, indexers)
		}
		return newInformer(lw, object, resync, indexers)
	}
	inner, err := cache.New(config, options)
	if err != nil {
		return nil, fmt.Errorf("creating the cache: %w", err)
	}
	w.namespaces = inner
	return &Cache{Cache: inner, watcher: w}, nil
}

// Start implements cache.Informers.
func (c *Cache) Start(ctx context.Context) error {
	if _, err := c.GetInformer(ctx, &corev1.Secret{}, cache.BlockUntilSynced(false)); err != nil {
		return fmt.Errorf("watching Secrets: %w", err)
	}
	namespaces, err := c.GetInformer(ctx, &corev1.Namespace{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching namespaces: %w", err)
	}
	registration, err := namespaces.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    c.watcher.enqueue,
		UpdateFunc: func(_, object any) { c.watcher.enqueue(object) },
		DeleteFunc: c.watcher.enqueue,
	})
	if err != nil {
		return fmt.Errorf("watching namespaces: %w", err)
	}
	c.watcher.namespacesSynced = registration.HasSynced
	ctx, cancel := context.WithCancel(ctx)
	done := c.watcher.start(ctx)
	defer func() { cancel(); <-done }()
	return c.Cache.Start(ctx) //nolint:wrapcheck // Passed on as it is.
}

// Get implements client.Reader. Secrets outside of tenant namespaces are not found.
func (c *Cache) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if _, ok := object.(*corev1.Secret); ok {
		if _, err := c.isReady(ctx, key.Namespace); err != nil {
			return err
		}
	}
	return c.Cache.Get(ctx, key, object, options...) //nolint:wrapcheck // Passed on as it is.
}

// List implements client.Reader. A list of all namespaces has the Secrets of those that are ready.
func (c *Cache) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	namespace := (&client.ListOptions{}).ApplyOptions(options).Namespace
	if _, ok := list.(*corev1.SecretList); ok && namespace != "" {
		if _, err := c.isReady(ctx, namespace); err != nil {
			return err
		}
	}
	return c.Cache.List(ctx, list, options...) //nolint:wrapcheck // Passed on as it is.
}

// isReady reports whether the Secrets of a namespace are read. The error is ErrNotReady in a
// tenant namespace whose Secrets are not read yet.
func (c *Cache) isReady(ctx context.Context, name string) (bool, error) {
	if c.watcher.isReady(name) {
		return true, nil
	}
	namespace := &corev1.Namespace{}
	err := c.Cache.Get(ctx, client.ObjectKey{Name: name}, namespace)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return false, fmt.Errorf("reading namespace %q: %w", name, err)
	case err == nil && isTenant(namespace):
		return false, fmt.Errorf("namespace %q: %w", name, ErrNotReady)
	default:
		return false, nil
	}
}

func isTenant(namespace *corev1.Namespace) bool {
	return authentication.TenantNamespaceProblem(namespace, liqocorev1beta1.ClusterID(namespace.Labels[liqocorev1beta1.RemoteClusterIDLabel])) == ""
}

// Reader returns a reader past the cache of a manager. If the manager's cache is a Cache, the
// reader makes no requests for Secrets that the API server would deny: those of a tenant namespace
// are not ready, and others are not found.
func Reader(mgr ctrl.Manager) client.Reader {
	c, ok := mgr.GetCache().(*Cache)
	if !ok {
		return mgr.GetAPIReader()
	}
	return &reader{Reader: mgr.GetAPIReader(), cache: c}
}

type reader struct {
	client.Reader
	cache *Cache
}

// Get implements client.Reader.
func (r *reader) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if _, ok := object.(*corev1.Secret); ok {
		isReady, err := r.cache.isReady(ctx, key.Namespace)
		if err != nil {
			return err
		}
		if !isReady {
			return apierrors.NewNotFound(corev1.Resource("secrets"), key.Name)
		}
	}
	return r.Reader.Get(ctx, key, object, options...) //nolint:wrapcheck // Passed on as it is.
}
