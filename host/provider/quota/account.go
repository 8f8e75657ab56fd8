package quota

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// Account has the usage of every user, from the events of ShadowPods. It is safe for concurrent
// use.
type Account struct {
	clock clock.PassiveClock

	mu sync.Mutex
	// users by the value of the creator label.
	users map[string]*Usage
	// creators are the users of ShadowPods, as their labels were when they were observed first.
	creators map[types.UID]string
	// version is the newest resource version of all ShadowPods.
	version uint64
	synced  func() bool
}

// NewAccount returns an Account that knows no ShadowPods.
func NewAccount(passive clock.PassiveClock) *Account {
	return &Account{clock: passive, users: map[string]*Usage{}, creators: map[types.UID]string{}, synced: func() bool { return true }}
}

// Watch has the Account follow the ShadowPods of a cache.
func (a *Account) Watch(ctx context.Context, informers cache.Informers) error {
	informer, err := informers.GetInformer(ctx, &offloadingv1beta1.ShadowPod{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching ShadowPods: %w", err)
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { a.handle(object, a.observe) },
		UpdateFunc: func(_, object any) { a.handle(object, a.observe) },
		DeleteFunc: func(object any) { a.handle(object, a.remove) },
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
	if unknown, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = unknown.Obj
	}
	if shadow, ok := object.(*offloadingv1beta1.ShadowPod); ok {
		record(shadow)
	}
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

func (a *Account) remove(shadow *offloadingv1beta1.ShadowPod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version = max(a.version, parseVersion(shadow.ResourceVersion))
	user, known := a.creators[shadow.UID]
	if !known {
		return
	}
	delete(a.creators, shadow.UID)
	a.user(user).remove(shadow, a.clock.Now())
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
	now := a.clock.Now()
	for uid, pod := range usage.pods {
		isListed := slices.ContainsFunc(shadows, func(s offloadingv1beta1.ShadowPod) bool { return s.UID == uid })
		if isListed || pod.version > version || !pod.deletedAt.IsZero() {
			continue
		}
		gone := &offloadingv1beta1.ShadowPod{}
		gone.Name, gone.Namespace, gone.UID = pod.key.Name, pod.key.Namespace, uid
		delete(a.creators, uid)
		usage.remove(gone, now)
	}
	for i := range shadows {
		a.creators[shadows[i].UID] = user
		usage.observe(&shadows[i])
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
	kept.Status.Phase = shadow.Status.Phase
	pod := &shadow.Spec.Pod
	kept.Spec.Pod.Overhead, kept.Spec.Pod.Resources = pod.Overhead, pod.Resources
	kept.Spec.Pod.Containers = trimContainers(pod.Containers)
	kept.Spec.Pod.InitContainers = trimContainers(pod.InitContainers)
	return kept, nil
}
