package tenantsecrets

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

const (
	// firstReview and lastReview are the first and the longest pause between two reviews of the
	// right in a namespace, which doubles each time.
	firstReview = 100 * time.Millisecond
	lastReview  = 10 * time.Second
	// syncPoll is the pause between two looks at a cache that reads its first list.
	syncPoll = 20 * time.Millisecond
)

// tenant is the watch on the Secrets of a tenant namespace. The informer's mutex guards it.
type tenant struct {
	namespace string
	wanted    bool
	wake      chan struct{} // Receives when wanted changes.
	denied    bool          // There was a review, and no right.
	// cache and informer are set while the Secrets can be read.
	cache    cache.Cache
	informer cache.Informer
}

func (t *tenant) notify() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// run watches the Secrets of a namespace as long as it is a tenant namespace and the process has
// the right. It ends when the namespace is no tenant namespace any more.
func (i *informer) run(ctx context.Context, t *tenant) {
	pause := firstReview
	for i.proceeds(ctx, t) {
		allowed, err := i.review(ctx, t.namespace)
		if err == nil && allowed {
			err = i.watch(ctx, t)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			ctrl.LoggerFrom(ctx).Error(err, "Watching the Secrets of a tenant namespace failed", "namespace", t.namespace)
		case allowed:
			pause = firstReview
			continue
		default:
			i.set(func() { t.denied = true })
		}
		sleep(ctx, pause, t.wake)
		pause = min(2*pause, lastReview)
	}
}

func (i *informer) set(change func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change()
}

// proceeds reports whether the namespace is still wanted; otherwise it forgets the namespace.
func (i *informer) proceeds(ctx context.Context, t *tenant) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !t.wanted {
		delete(i.tenants, t.namespace)
	}
	return t.wanted && ctx.Err() == nil
}

func (i *informer) isWanted(t *tenant) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return t.wanted
}

// sleep waits for the pause, a change, or the end of the context.
func sleep(ctx context.Context, pause time.Duration, wake <-chan struct{}) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-timer.C:
	}
}

// watch watches the Secrets of a namespace until it is no tenant namespace any more. Even then
// it continues until the right is taken away or no Secret is left, since finalizers must be
// removed.
func (i *informer) watch(ctx context.Context, t *tenant) error {
	secrets, err := i.open(t.namespace)
	if err != nil {
		return fmt.Errorf("creating the cache: %w", err)
	}
	source, err := secrets.GetInformer(ctx, &corev1.Secret{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("creating the informer: %w", err)
	}
	running, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	group.Go(func() {
		if err := secrets.Start(running); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "The watch on the Secrets of a tenant namespace failed", "namespace", t.namespace)
		}
	})
	for !source.HasSynced() {
		if ctx.Err() != nil || !i.isWanted(t) {
			return nil
		}
		sleep(ctx, syncPoll, nil)
	}
	if err := i.publish(t, secrets, source); err != nil {
		return err
	}
	i.awaitEnd(ctx, t, secrets)
	return i.withdraw(ctx, t, secrets)
}

// publish adds all handlers to the informer of a namespace, whose Secrets can be read from then on.
func (i *informer) publish(t *tenant, secrets cache.Cache, source cache.Informer) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	t.informer = source
	for r := range i.handlers {
		if err := r.add(t); err != nil {
			return err
		}
	}
	t.cache, t.denied = secrets, false
	return nil
}

// awaitEnd returns when a namespace that is no tenant namespace any more has no Secret, or its
// Secrets may not be read any more.
func (i *informer) awaitEnd(ctx context.Context, t *tenant, secrets cache.Cache) {
	pause := firstReview
	for ctx.Err() == nil {
		if i.isWanted(t) {
			pause = firstReview
			select {
			case <-ctx.Done():
			case <-t.wake:
			}
			continue
		}
		left := &corev1.SecretList{}
		if err := secrets.List(ctx, left); err == nil && len(left.Items) == 0 {
			return
		}
		if allowed, err := i.review(ctx, t.namespace); err == nil && !allowed {
			return
		}
		sleep(ctx, pause, t.wake)
		pause = min(2*pause, lastReview)
	}
}

// withdraw removes the Secrets of a namespace: handlers see their deletion.
func (i *informer) withdraw(ctx context.Context, t *tenant, secrets cache.Cache) error {
	if ctx.Err() != nil {
		return nil // Nothing handles events any more.
	}
	left := &corev1.SecretList{}
	if err := secrets.List(ctx, left); err != nil {
		return fmt.Errorf("listing what was read: %w", err)
	}
	handlers, err := i.unpublish(t)
	for _, handler := range handlers {
		for j := range left.Items {
			handler.OnDelete(&left.Items[j])
		}
	}
	return err
}

// unpublish removes all handlers from the informer of a namespace and returns them.
func (i *informer) unpublish(t *tenant) ([]toolscache.ResourceEventHandler, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	t.cache, t.denied = nil, true
	var handlers []toolscache.ResourceEventHandler
	for r := range i.handlers {
		if err := r.remove(t); err != nil {
			return nil, err
		}
		handlers = append(handlers, r.handler)
	}
	return handlers, nil
}

// doneChecker reports that a function returned true.
type doneChecker struct{ done chan struct{} }

// Name implements cache.DoneChecker.
func (doneChecker) Name() string { return "Secrets of tenant namespaces" }

// Done implements cache.DoneChecker.
func (c doneChecker) Done() <-chan struct{} { return c.done }

func (i *informer) checker(hasSynced func() bool) toolscache.DoneChecker {
	checker := doneChecker{make(chan struct{})}
	go func() {
		for !hasSynced() {
			if i.IsStopped() {
				return
			}
			<-time.After(syncPoll)
		}
		close(checker.done)
	}()
	return checker
}
