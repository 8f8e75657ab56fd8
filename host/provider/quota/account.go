package quota

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// Account has the usage of every user, from the events of ShadowPods. It is safe for concurrent
// use.
type Account struct {
	clock clock.PassiveClock
	// reader completes ShadowPods; nil before [Account.Watch].
	reader client.Reader

	mu sync.Mutex
	// users by the value of the creator label.
	users map[string]*Usage
	// creators are the users of ShadowPods, as their labels were when they were observed first.
	creators map[types.UID]string
	// gone are the ShadowPods that were deleted, in this order. They are known until reservations
	// of them have expired.
	gone []deletion
	// version is the newest resource version of all ShadowPods.
	version uint64
	synced  func() bool
}

// deletion is a ShadowPod of a user that was deleted.
type deletion struct {
	user string
	uid  types.UID
	at   time.Time
}

// NewAccount returns an Account that knows no ShadowPods.
func NewAccount(passive clock.PassiveClock) *Account {
	return &Account{clock: passive, users: map[string]*Usage{}, creators: map[types.UID]string{}, synced: func() bool { return true }}
}

// Watch has the Account follow the ShadowPods of a cache.
func (a *Account) Watch(ctx context.Context, informers cache.Cache) error {
	for _, kind := range []client.Object{&nodev1.RuntimeClass{}, &corev1.LimitRange{}} {
		if _, err := informers.GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watching what the API server adds to pods: %w", err)
		}
	}
	a.reader = informers
	informer, err := informers.GetInformer(ctx, &offloadingv1beta1.ShadowPod{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching ShadowPods: %w", err)
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			a.handle(object, func(shadow *offloadingv1beta1.ShadowPod) { a.observeCompleted(ctx, shadow) })
		},
		UpdateFunc: func(_, object any) {
			a.handle(object, func(shadow *offloadingv1beta1.ShadowPod) { a.observeCompleted(ctx, shadow) })
		},
		DeleteFunc: a.handleDeletion,
	})
	if err != nil {
		return fmt.Errorf("watching ShadowPods: %w", err)
	}
	a.synced = registration.HasSynced
	return nil
}

// Synced reports whether the Account knows the ShadowPods that existed at the start.
func (a *Account) Synced() bool { return a.synced() }

func (a *Account) handle(object any, record func(*offloadingv1beta1.ShadowPod)) {
	if shadow, ok := object.(*offloadingv1beta1.ShadowPod); ok {
		record(shadow)
	}
}

// handleDeletion records a deletion. After a broken watch, the last version is one before it.
func (a *Account) handleDeletion(object any) {
	unknown, isUnknown := object.(toolscache.DeletedFinalStateUnknown)
	if isUnknown {
		object = unknown.Obj
	}
	a.handle(object, func(shadow *offloadingv1beta1.ShadowPod) { a.remove(shadow, !isUnknown) })
}

// observeCompleted records a ShadowPod with what the API server adds to its pod.
func (a *Account) observeCompleted(ctx context.Context, shadow *offloadingv1beta1.ShadowPod) {
	completed, err := complete(ctx, a.reader, shadow)
	if err != nil { // The caches end. It counts without that until its pod exists.
		ctrl.LoggerFrom(ctx).Error(err, "A ShadowPod counts without what is added to its pod", "namespace", shadow.Namespace, "name", shadow.Name)
		completed = shadow
	}
	a.observe(completed)
}

func (a *Account) observe(shadow *offloadingv1beta1.ShadowPod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version = max(a.version, parseVersion(shadow.ResourceVersion))
	user, known := a.creators[shadow.UID]
	if !known {
		if user = shadow.Labels[offloadingv1beta1.CreatorUserLabel]; user == "" {
			return
		}
		a.creators[shadow.UID] = user
	}
	a.user(user).observe(shadow)
}

func (a *Account) remove(shadow *offloadingv1beta1.ShadowPod, isExact bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version = max(a.version, parseVersion(shadow.ResourceVersion))
	user, known := a.creators[shadow.UID]
	if !known {
		return
	}
	a.removeFrom(user, shadow, isExact)
}

// removeFrom removes a ShadowPod of a user, and forgets those whose reservations have expired. The
// lock must be held.
func (a *Account) removeFrom(user string, shadow *offloadingv1beta1.ShadowPod, isExact bool) {
	now := a.clock.Now()
	delete(a.creators, shadow.UID)
	a.user(user).remove(shadow, isExact, now)
	a.gone = append(a.gone, deletion{user, shadow.UID, now})
	for len(a.gone) > 0 && now.Sub(a.gone[0].at) > reservationLifetime {
		a.forgetDeletion(a.gone[0])
		a.gone = a.gone[1:]
	}
}

func (a *Account) forgetDeletion(gone deletion) {
	usage := a.users[gone.user]
	if usage == nil {
		return
	}
	if pod := usage.pods[gone.uid]; pod != nil && !pod.deletedAt.IsZero() {
		delete(usage.pods, gone.uid)
		usage.release(gone.uid)
	}
	if len(usage.pods) == 0 {
		delete(a.users, gone.user)
	}
}

// forget forgets a user without ShadowPods.
func (a *Account) forget(user string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if usage := a.users[user]; usage != nil && len(usage.pods) == 0 {
		delete(a.users, user)
	}
}

// user returns the usage of a user. The lock must be held.
func (a *Account) user(name string) *Usage {
	usage := a.users[name]
	if usage == nil {
		usage = newUsage()
		a.users[name] = usage
	}
	return usage
}

// read calls do with the usage of a user, which it must not keep.
func (a *Account) read(user string, do func(*Usage)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	usage := a.user(user)
	usage.version = max(usage.version, a.version)
	do(usage)
}

// replace sets the ShadowPods of a user to those of a list without a cache, which was requested
// at a time and is at least as new as the version.
func (a *Account) replace(user string, shadows []offloadingv1beta1.ShadowPod, version uint64, requested time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	usage := a.user(user)
	listed := make(map[types.UID]bool, len(shadows))
	for i := range shadows {
		listed[shadows[i].UID] = true
	}
	for uid, pod := range usage.pods {
		if listed[uid] || pod.version > version || !pod.deletedAt.IsZero() {
			continue
		}
		gone := &offloadingv1beta1.ShadowPod{}
		gone.Name, gone.Namespace, gone.UID = pod.key.Name, pod.key.Namespace, uid
		a.removeFrom(user, gone, false)
	}
	// All that was known of the user may have been forgotten.
	a.users[user] = usage
	for i := range shadows {
		usage.observe(&shadows[i])
		if usage.pods[shadows[i].UID].deletedAt.IsZero() {
			a.creators[shadows[i].UID] = user
		}
	}
	usage.version, usage.listedAt = max(usage.version, version), requested
}

// hasObserved reports whether the Account has observed a resource version.
func (a *Account) hasObserved(user string, version uint64) bool {
	has := false
	a.read(user, func(usage *Usage) { has = usage.version >= version })
	return has
}

// Trim is a cache transformation that drops what the Account does not need of a ShadowPod.
func Trim(object any) (any, error) {
	shadow, ok := object.(*offloadingv1beta1.ShadowPod)
	if !ok {
		return object, nil
	}
	kept := &offloadingv1beta1.ShadowPod{TypeMeta: shadow.TypeMeta}
	kept.Name, kept.Namespace, kept.UID, kept.ResourceVersion = shadow.Name, shadow.Namespace, shadow.UID, shadow.ResourceVersion
	if user, ok := shadow.Labels[offloadingv1beta1.CreatorUserLabel]; ok {
		kept.Labels = map[string]string{offloadingv1beta1.CreatorUserLabel: user}
	}
	kept.Status.Phase, kept.Status.Requests = shadow.Status.Phase, shadow.Status.Requests
	pod := &shadow.Spec.Pod
	kept.Spec.Pod.Overhead, kept.Spec.Pod.Resources, kept.Spec.Pod.RuntimeClassName = pod.Overhead, pod.Resources, pod.RuntimeClassName
	kept.Spec.Pod.Containers = trimContainers(pod.Containers)
	kept.Spec.Pod.InitContainers = trimContainers(pod.InitContainers)
	return kept, nil
}
