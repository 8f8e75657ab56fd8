// Package tenantsecrets reads Secrets in tenant namespaces, and in no others: a process that may
// not read all Secrets of the cluster cannot have one watch for them. Each tenant namespace has
// a watch of its own, which starts when the process has the right to it there.
package tenantsecrets

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
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
	secrets *informer
}

// New creates a Cache. It is a cache.NewCacheFunc.
func New(config *rest.Config, options cache.Options) (cache.Cache, error) {
	others, err := cache.New(config, options)
	if err != nil {
		return nil, fmt.Errorf("creating the cache: %w", err)
	}
	reviews, err := authorizationclient.NewForConfigAndClient(config, options.HTTPClient)
	if err != nil {
		return nil, fmt.Errorf("creating the client of access reviews: %w", err)
	}
	open := func(namespace string) (cache.Cache, error) {
		own := options
		own.DefaultNamespaces, own.DefaultLabelSelector, own.DefaultFieldSelector = nil, nil, nil
		own.ByObject = map[client.Object]cache.ByObject{&corev1.Secret{}: {Namespaces: map[string]cache.Config{namespace: {}}}}
		return cache.New(config, own) //nolint:wrapcheck // The caller adds the namespace.
	}
	return &Cache{Cache: others, secrets: newInformer(open, reviewer(reviews.SelfSubjectAccessReviews()))}, nil
}

// Start implements cache.Informers.
func (c *Cache) Start(ctx context.Context) error {
	namespaces, err := c.GetInformer(ctx, &corev1.Namespace{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching namespaces: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer c.secrets.stop(cancel)
	c.secrets.start(ctx)
	handler, err := namespaces.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { c.secrets.want(nameOf(object), isTenant(object)) },
		UpdateFunc: func(_, object any) { c.secrets.want(nameOf(object), isTenant(object)) },
		DeleteFunc: func(object any) { c.secrets.want(nameOf(object), false) },
	})
	if err != nil {
		return fmt.Errorf("watching namespaces: %w", err)
	}
	c.secrets.knowsNamespaces(handler.HasSynced)
	return c.Cache.Start(ctx) //nolint:wrapcheck // Passed on as it is.
}

func nameOf(object any) string {
	name, err := toolscache.DeletionHandlingObjectToName(object)
	if err != nil {
		return "" // The informer has no other objects.
	}
	return name.Name
}

func isTenant(object any) bool {
	namespace, ok := object.(*corev1.Namespace)
	return ok && authentication.TenantNamespaceProblem(namespace, liqocorev1beta1.ClusterID(namespace.Labels[liqocorev1beta1.RemoteClusterIDLabel])) == ""
}

// GetInformer implements cache.Informers.
func (c *Cache) GetInformer(ctx context.Context, object client.Object, options ...cache.InformerGetOption) (cache.Informer, error) {
	if _, ok := object.(*corev1.Secret); ok {
		return c.secrets, nil
	}
	return c.Cache.GetInformer(ctx, object, options...) //nolint:wrapcheck // Passed on as it is.
}

// GetInformerForKind implements cache.Informers.
func (c *Cache) GetInformerForKind(ctx context.Context, kind schema.GroupVersionKind, options ...cache.InformerGetOption) (cache.Informer, error) {
	if kind == corev1.SchemeGroupVersion.WithKind("Secret") {
		return c.secrets, nil
	}
	return c.Cache.GetInformerForKind(ctx, kind, options...) //nolint:wrapcheck // Passed on as it is.
}

// Get implements client.Reader. Secrets outside of tenant namespaces are not found.
func (c *Cache) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if _, ok := object.(*corev1.Secret); !ok {
		return c.Cache.Get(ctx, key, object, options...) //nolint:wrapcheck // Passed on as it is.
	}
	secrets, err := c.of(ctx, key)
	if err != nil {
		return err
	}
	return secrets.Get(ctx, key, object, options...) //nolint:wrapcheck // Passed on as it is.
}

// of returns the cache of a Secret's namespace.
func (c *Cache) of(ctx context.Context, key client.ObjectKey) (cache.Cache, error) {
	if secrets := c.secrets.caches()[key.Namespace]; secrets != nil {
		return secrets, nil
	}
	namespace := &corev1.Namespace{}
	err := c.Cache.Get(ctx, client.ObjectKey{Name: key.Namespace}, namespace)
	switch {
	case apierrors.IsNotFound(err), err == nil && !isTenant(namespace):
		return nil, apierrors.NewNotFound(corev1.Resource("secrets"), key.Name) //nolint:wrapcheck // A status, as of the API server.
	case err != nil:
		return nil, fmt.Errorf("reading namespace %q: %w", key.Namespace, err)
	default:
		return nil, fmt.Errorf("namespace %q: %w", key.Namespace, ErrNotReady)
	}
}

// List implements client.Reader. A list of all namespaces has the Secrets of those that are ready.
func (c *Cache) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	secrets, ok := list.(*corev1.SecretList)
	if !ok {
		return c.Cache.List(ctx, list, options...) //nolint:wrapcheck // Passed on as it is.
	}
	applied := (&client.ListOptions{}).ApplyOptions(options)
	if applied.Namespace != "" {
		one, err := c.of(ctx, client.ObjectKey{Namespace: applied.Namespace})
		if apierrors.IsNotFound(err) {
			secrets.Items = nil
			return nil
		}
		if err != nil {
			return err
		}
		return one.List(ctx, list, options...) //nolint:wrapcheck // Passed on as it is.
	}
	secrets.Items = nil
	all := c.secrets.caches()
	for _, namespace := range slices.Sorted(maps.Keys(all)) {
		part := &corev1.SecretList{}
		if err := all[namespace].List(ctx, part, options...); err != nil {
			return fmt.Errorf("listing Secrets of namespace %q: %w", namespace, err)
		}
		secrets.Items = append(secrets.Items, part.Items...)
	}
	return nil
}

// Reader returns a reader past the cache of a manager. If the manager's cache is a Cache, the
// reader returns ErrNotReady instead of requests for Secrets of tenant namespaces that the API
// server would deny.
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
		if _, err := r.cache.of(ctx, key); err != nil {
			return err
		}
	}
	return r.Reader.Get(ctx, key, object, options...) //nolint:wrapcheck // Passed on as it is.
}
