package tenantsecrets

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/host/kit/retry"
)

// syncPoll is the pause between two looks whether all namespaces are read at the start.
const syncPoll = 20 * time.Millisecond

// watcher watches the Secrets of each tenant namespace, and passes them on to one informer.
type watcher struct {
	core    rest.Interface
	reviews authorizationclient.SelfSubjectAccessReviewInterface
	// namespaces and namespacesSynced are set before start. All tenant namespaces are enqueued
	// when namespacesSynced returns true.
	namespaces       client.Reader
	namespacesSynced func() bool
	queue            workqueue.TypedRateLimitingInterface[string]
	events           chan watch.Event

	mu      sync.Mutex
	tenants map[string]*tenant
	// isListed is set when the informer has its list, which is followed by events.
	isListed bool
}

func newWatcher(core rest.Interface, reviews authorizationclient.SelfSubjectAccessReviewInterface) *watcher {
	return &watcher{
		core: core, reviews: reviews, queue: workqueue.NewTypedRateLimitingQueue(retry.Limiter[string]()),
		events: make(chan watch.Event), tenants: map[string]*tenant{},
	}
}

// enqueue enqueues a namespace.
func (w *watcher) enqueue(object any) {
	name, err := toolscache.DeletionHandlingObjectToName(object)
	if err != nil {
		return // The informer has no other objects.
	}
	if namespace, ok := object.(*corev1.Namespace); ok && isTenant(namespace) {
		w.ensure(name.Name)
	}
	w.queue.Add(name.Name)
}

// ensure returns the tenant of a namespace, which it creates.
func (w *watcher) ensure(name string) *tenant {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tenants[name] == nil {
		w.tenants[name] = &tenant{watcher: w, name: name, secrets: map[string]*corev1.Secret{}}
	}
	return w.tenants[name]
}

// start reconciles namespaces until the context ends. The channel is closed when no watch runs.
func (w *watcher) start(ctx context.Context) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer context.AfterFunc(ctx, w.queue.ShutDown)()
		for w.next(ctx) {
		}
		w.mu.Lock()
		tenants := maps.Clone(w.tenants)
		w.mu.Unlock()
		for _, t := range tenants {
			t.stop()
		}
	}()
	return done
}

func (w *watcher) next(ctx context.Context) bool {
	name, isShutDown := w.queue.Get()
	if isShutDown {
		return false
	}
	defer w.queue.Done(name)
	isSettled, err := w.reconcile(ctx, name)
	if err != nil && ctx.Err() == nil {
		ctrl.LoggerFrom(ctx).Error(err, "Watching the Secrets of a tenant namespace failed", "namespace", name)
	}
	if isSettled {
		w.queue.Forget(name)
	} else {
		w.queue.AddRateLimited(name)
	}
	return true
}

// reconcile starts the watch in a tenant namespace when the process has the right, and ends that in
// a namespace that is not a tenant namespace any more when the right is taken away or no Secret is
// left: finalizers must be removed before. It reports whether nothing remains to be done.
func (w *watcher) reconcile(ctx context.Context, name string) (bool, error) {
	namespace := &corev1.Namespace{}
	err := w.namespaces.Get(ctx, client.ObjectKey{Name: name}, namespace)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading namespace %q: %w", name, err)
	}
	var t *tenant
	isWanted := err == nil && isTenant(namespace)
	if isWanted {
		t = w.ensure(name)
	} else {
		t = w.get(name)
	}
	if t == nil || isWanted && t.isRunning() {
		return true, nil
	}
	isAllowed, err := w.review(ctx, name)
	switch {
	case err != nil:
		return false, err
	case isWanted && isAllowed:
		t.start(ctx)
	case isWanted:
		t.set(denied)
	case !isAllowed || t.isEmpty():
		t.end(ctx)
	}
	return isWanted == isAllowed, nil
}

// review reports whether the process may list Secrets in a namespace.
func (w *watcher) review(ctx context.Context, namespace string) (bool, error) {
	review, err := w.reviews.Create(ctx, &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "list", Resource: "secrets"},
	}}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("reviewing the right to list Secrets in namespace %q: %w", namespace, err)
	}
	return review.Status.Allowed, nil
}

func (w *watcher) get(name string) *tenant {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tenants[name]
}

func (w *watcher) isReady(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.tenants[name]
	return t != nil && t.state == ready
}

// listerWatcher returns what the informer reads. Its watch never ends.
func (w *watcher) listerWatcher() toolscache.ListerWatcher {
	return toolscache.ToListWatcherWithWatchListSemantics(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
			var list *corev1.SecretList
			err := wait.PollUntilContextCancel(ctx, syncPoll, true, func(context.Context) (bool, error) {
				list = w.snapshot()
				return list != nil, nil
			})
			if err != nil {
				return nil, fmt.Errorf("waiting for the Secrets of tenant namespaces: %w", err)
			}
			return list, nil
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			return watch.NewProxyWatcher(w.events), nil
		},
	}, w)
}

// IsWatchListSemanticsUnSupported has the informer list before it watches.
func (*watcher) IsWatchListSemanticsUnSupported() bool { return true }

// snapshot returns all Secrets that were read, or nil as long as a tenant namespace is not read in
// which the process has the right. Events follow for all changes after the snapshot.
func (w *watcher) snapshot() *corev1.SecretList {
	if !w.namespacesSynced() {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	list := &corev1.SecretList{}
	for _, t := range w.tenants {
		if !w.isListed && t.state < denied {
			return nil
		}
		for _, secret := range t.secrets {
			list.Items = append(list.Items, *secret)
		}
	}
	w.isListed = true
	return list
}

// send passes events on to the informer.
func (w *watcher) send(ctx context.Context, events []watch.Event) {
	for _, event := range events {
		select {
		case w.events <- event:
		case <-ctx.Done():
			return
		}
	}
}
