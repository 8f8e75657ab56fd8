package tenantsecrets

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/longshore-dev/longshore/host/kit/restore"
)

// state is how far the Secrets of a namespace are read.
type state int

const (
	pending state = iota // The right is not reviewed, or there is no list yet.
	denied               // The process has no right.
	ready
)

// tenant has the Secrets of a tenant namespace. It is the store of a reflector. The reconciler calls
// its methods one after the other.
type tenant struct {
	watcher *watcher
	name    string

	base   context.Context // The context of watcher.start.
	cancel context.CancelFunc
	done   chan struct{}

	// The watcher's mutex guards the following.
	state   state
	secrets map[string]*corev1.Secret
}

var _ toolscache.ReflectorStore = (*tenant)(nil)

func (t *tenant) isRunning() bool { return t.cancel != nil }

// start starts the reflector.
func (t *tenant) start(ctx context.Context) {
	t.set(pending)
	t.base, t.done = ctx, make(chan struct{})
	life, cancel := context.WithCancel(ctx)
	t.cancel = cancel
	secrets := toolscache.NewListWatchFromClient(t.watcher.core, "secrets", t.name, fields.Everything())
	reflector := toolscache.NewReflector(restore.Detect(secrets), &corev1.Secret{}, t, 0)
	go func() {
		defer close(t.done)
		reflector.RunWithContext(life)
	}()
}

// stop ends the reflector.
func (t *tenant) stop() {
	if t.isRunning() {
		t.cancel()
		<-t.done
		t.cancel = nil
	}
}

// end stops the reflector, removes the Secrets of the namespace from the informer, and forgets the
// namespace.
func (t *tenant) end(ctx context.Context) {
	t.stop()
	w := t.watcher
	w.mu.Lock()
	events := t.replace(nil)
	delete(w.tenants, t.name)
	w.mu.Unlock()
	w.send(ctx, events)
}

func (t *tenant) set(current state) {
	t.watcher.mu.Lock()
	defer t.watcher.mu.Unlock()
	t.state = current
}

func (t *tenant) isEmpty() bool {
	t.watcher.mu.Lock()
	defer t.watcher.mu.Unlock()
	return len(t.secrets) == 0
}

// Add implements cache.ReflectorStore.
func (t *tenant) Add(object any) error { return t.apply(watch.Modified, object) }

// Update implements cache.ReflectorStore.
func (t *tenant) Update(object any) error { return t.apply(watch.Modified, object) }

// Delete implements cache.ReflectorStore.
func (t *tenant) Delete(object any) error { return t.apply(watch.Deleted, object) }

// Resync implements cache.ReflectorStore.
func (t *tenant) Resync() error { return nil }

// apply stores a change and sends its event. The informer has what is in its list, and handles a
// modified object that it does not have as an added one.
func (t *tenant) apply(change watch.EventType, object any) error {
	secret, ok := object.(*corev1.Secret)
	if !ok {
		return fmt.Errorf("storing a Secret of namespace %q: unexpected object %T", t.name, object)
	}
	secret.ManagedFields = nil
	w := t.watcher
	w.mu.Lock()
	if change == watch.Deleted {
		delete(t.secrets, secret.Name)
	} else {
		t.secrets[secret.Name] = secret
	}
	isListed := w.isListed
	w.mu.Unlock()
	if isListed {
		w.send(t.base, []watch.Event{{Type: change, Object: secret}})
	}
	return nil
}

// Replace implements cache.ReflectorStore. The Secrets are ready when the informer has them.
func (t *tenant) Replace(objects []any, _ string) error {
	secrets := make(map[string]*corev1.Secret, len(objects))
	for _, object := range objects {
		secret, ok := object.(*corev1.Secret)
		if !ok {
			return fmt.Errorf("storing the Secrets of namespace %q: unexpected object %T", t.name, object)
		}
		secret.ManagedFields = nil
		secrets[secret.Name] = secret
	}
	w := t.watcher
	w.mu.Lock()
	events := t.replace(secrets)
	if !w.isListed {
		t.state = ready
	}
	w.mu.Unlock()
	w.send(t.base, events)
	t.set(ready)
	return nil
}

// replace replaces the Secrets, and returns the events for an informer that has its list. A Secret
// that replaces another one of its name is deleted and added (package restore).
func (t *tenant) replace(secrets map[string]*corev1.Secret) []watch.Event {
	var events []watch.Event
	if t.watcher.isListed {
		for name, secret := range t.secrets {
			if current := secrets[name]; current == nil || current.UID != secret.UID {
				events = append(events, watch.Event{Type: watch.Deleted, Object: secret})
			}
		}
		for _, secret := range secrets {
			events = append(events, watch.Event{Type: watch.Modified, Object: secret})
		}
	}
	t.secrets = secrets
	return events
}
