package quota

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

const (
	// userIndex indexes Quotas by the label value of their user.
	userIndex = "spec.user"
	// decisionTimeout bounds the decision on the ShadowPods that wait for one Quota.
	decisionTimeout = 8 * time.Second
	// catchUpTimeout is how long a decision waits for events that another replica has.
	catchUpTimeout  = 100 * time.Millisecond
	catchUpInterval = 2 * time.Millisecond
	maxAttempts     = 10
)

// Enforcer admits ShadowPods. The decisions on one Quota are made one after the other: in a
// replica by a queue, among replicas by the resource version of the Quota.
//
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=shadowpods;quotas,verbs=get;list;watch
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=quotas/status,verbs=update
// +kubebuilder:rbac:groups=node.k8s.io,resources=runtimeclasses,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=limitranges,verbs=get;list;watch
type Enforcer struct {
	// Client reads Quotas from a cache with the index of [Index], and writes their status.
	Client client.Client
	// APIReader reads past the cache.
	APIReader client.Reader
	Account   *Account
	Clock     clock.Clock

	// claims wait for each other by tenant namespace.
	claims lines

	mu     sync.Mutex
	queues map[string]*queue
}

// queue has the decisions that wait for one user's Quota.
type queue struct {
	waiting []*call
	// isActive is set while a goroutine decides.
	isActive bool
	// written is the Quota as this replica wrote it last. Only the goroutine that decides uses it.
	written *offloadingv1beta1.Quota
}

// call waits for a decision on a ShadowPod; without one, for the status to be current.
type call struct {
	shadow *offloadingv1beta1.ShadowPod
	// before is the ShadowPod before the change; nil for a new one.
	before *offloadingv1beta1.ShadowPod
	dryRun bool
	done   chan error
}

// Index has the cache find Quotas by their user.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &offloadingv1beta1.Quota{}, userIndex, UserOf); err != nil {
		return fmt.Errorf("indexing Quotas by their user: %w", err)
	}
	return nil
}

// UserOf returns the label value of a Quota's user.
func UserOf(object client.Object) []string {
	quota, ok := object.(*offloadingv1beta1.Quota)
	if !ok {
		return nil
	}
	return []string{LabelValue(quota.Spec.User)}
}

// Admit reserves the resources of a ShadowPod of a user in the user's Quota, unless it is a dry run.
// before is the ShadowPod before a change, nil for a new one. Admit returns a [Denied] error if the Quota
// does not admit it. The user is given by its label value.
func (e *Enforcer) Admit(ctx context.Context, user string, before, shadow *offloadingv1beta1.ShadowPod, dryRun bool) error {
	quota, err := e.Find(ctx, user)
	if err != nil {
		return err
	}
	if quota == nil {
		return noQuota(user)
	}
	if shadow, err = complete(ctx, e.Account.reader, shadow); err != nil {
		return err
	}
	if before, err = complete(ctx, e.Account.reader, before); err != nil {
		return err
	}
	return e.wait(ctx, user, &call{before: before, shadow: shadow, dryRun: dryRun, done: make(chan error, 1)})
}

// refresh writes what is used into the status of a user's Quota.
func (e *Enforcer) refresh(ctx context.Context, user string) error {
	return e.wait(ctx, user, &call{done: make(chan error, 1)})
}

// wait returns the decision on a call, which is made with those on all calls that wait for the same Quota.
func (e *Enforcer) wait(ctx context.Context, user string, c *call) error {
	e.mu.Lock()
	q := e.queue(user)
	q.waiting = append(q.waiting, c)
	if !q.isActive {
		q.isActive = true
		// The context of one request must not end the decisions on others.
		go e.work(context.WithoutCancel(ctx), user, q)
	}
	e.mu.Unlock()
	select {
	case err := <-c.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("waiting for the quota: %w", ctx.Err())
	}
}

// queue returns the queue of a user. The lock must be held.
func (e *Enforcer) queue(user string) *queue {
	q := e.queues[user]
	if q == nil {
		if e.queues == nil {
			e.queues = map[string]*queue{}
		}
		q = &queue{}
		e.queues[user] = q
	}
	return q
}

// sweep forgets users without a Quota, for whom no decision is under way.
func (e *Enforcer) sweep(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for user, q := range e.queues {
		if q.isActive {
			continue
		}
		quota, err := e.Find(ctx, user)
		if err != nil {
			return err
		}
		if quota == nil {
			delete(e.queues, user)
			e.Account.forget(user)
		}
	}
	return nil
}

// work decides on all that waits, together, until nothing waits.
func (e *Enforcer) work(ctx context.Context, user string, q *queue) {
	for {
		e.mu.Lock()
		batch := slices.Clone(q.waiting)
		e.mu.Unlock()
		limited, cancel := context.WithTimeout(ctx, decisionTimeout)
		errs, err := e.decide(limited, user, q, batch)
		cancel()
		e.mu.Lock()
		q.waiting = slices.Delete(q.waiting, 0, len(batch))
		q.isActive = len(q.waiting) > 0
		goOn := q.isActive
		e.mu.Unlock()
		for i, c := range batch {
			c.done <- cmp.Or(err, errs[i])
		}
		if !goOn {
			return
		}
	}
}

// decide decides on a batch, and writes the reservations at once. When the Quota has changed, it
// decides again. The result of each call is in errs; the error concerns all of them.
func (e *Enforcer) decide(ctx context.Context, user string, q *queue, batch []*call) (errs []error, err error) {
	errs = make([]error, len(batch))
	quota, err := e.quota(ctx, user, q.written)
	if err != nil {
		return errs, err
	}
	for range maxAttempts {
		if err := e.catchUp(ctx, user, quota); err != nil {
			return errs, err
		}
		next, err := e.reserveAll(user, quota, batch, errs)
		if errors.Is(err, errUnconfirmed) {
			err = e.list(ctx, user, 0)
			if err == nil {
				continue
			}
		}
		if err != nil || next == nil {
			return errs, err
		}
		err = e.Client.Status().Update(ctx, next)
		if err == nil {
			q.written = next
			return errs, nil
		}
		if !apierrors.IsConflict(err) {
			return errs, fmt.Errorf("reserving resources in Quota %s/%s: %w", quota.Namespace, quota.Name, err)
		}
		quota = &offloadingv1beta1.Quota{}
		if err := e.APIReader.Get(ctx, client.ObjectKeyFromObject(next), quota); err != nil {
			return errs, fmt.Errorf("reading Quota %s/%s: %w", next.Namespace, next.Name, err)
		}
	}
	return errs, fmt.Errorf("quota %s/%s changed %d times while resources were reserved", quota.Namespace, quota.Name, maxAttempts)
}

// reserveAll returns the Quota to write, with the reservations of a batch. It returns no Quota if there is
// nothing to write. The result of each call is in errs; the error concerns all of them.
func (e *Enforcer) reserveAll(user string, quota *offloadingv1beta1.Quota, batch []*call, errs []error) (next *offloadingv1beta1.Quota, failure error) {
	next = quota.DeepCopy()
	e.Account.read(user, func(usage *Usage) {
		status, err := refresh(next, usage, e.Clock.Now())
		if err != nil {
			failure = err
			return
		}
		next.Status = *status
		usage.settle(parseVersion(status.EndingResourceVersion), e.Clock.Now())
		for i, c := range batch {
			if c.shadow == nil {
				continue
			}
			changed := next
			if c.dryRun {
				changed = next.DeepCopy()
			}
			errs[i] = reserve(changed, usage, c.before, c.shadow, e.Clock.Now())
		}
	})
	if failure != nil || equality.Semantic.DeepEqual(next.Status, quota.Status) {
		return nil, failure
	}
	return next, nil
}

// Find returns the Quota of a user, by its label value: the oldest in the cache, nil if there is
// none.
func (e *Enforcer) Find(ctx context.Context, user string) (*offloadingv1beta1.Quota, error) {
	list := &offloadingv1beta1.QuotaList{}
	if err := e.Client.List(ctx, list, client.MatchingFields{userIndex: user}); err != nil {
		return nil, fmt.Errorf("listing the Quotas of user %q: %w", user, err)
	}
	if len(list.Items) == 0 {
		return nil, nil
	}
	first := slices.MinFunc(list.Items, func(a, b offloadingv1beta1.Quota) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name))
	})
	return &first, nil
}

func noQuota(user string) error {
	return &Denied{fmt.Sprintf("user %s has no Quota in this cluster: its ResourceSlice is not accepted, or a Quota with spec.user is to be created by the provider's administrator", user)}
}

// quota returns the Quota of a user as this replica knows it.
func (e *Enforcer) quota(ctx context.Context, user string, written *offloadingv1beta1.Quota) (*offloadingv1beta1.Quota, error) {
	first, err := e.Find(ctx, user)
	if err != nil {
		return nil, err
	}
	if first == nil {
		return nil, noQuota(user)
	}
	if written != nil && written.UID == first.UID && parseVersion(written.ResourceVersion) > parseVersion(first.ResourceVersion) {
		return written, nil
	}
	return first, nil
}

// catchUp waits until this replica has observed the ShadowPods that the last writer of the Quota
// had. If their events do not arrive, it lists the user's ShadowPods.
func (e *Enforcer) catchUp(ctx context.Context, user string, quota *offloadingv1beta1.Quota) error {
	fence := parseVersion(quota.Status.ObservedResourceVersion)
	limit := e.Clock.NewTimer(catchUpTimeout)
	defer limit.Stop()
	for !e.Account.hasObserved(user, fence) {
		select {
		case <-e.Clock.After(catchUpInterval):
		case <-ctx.Done():
			return fmt.Errorf("waiting for events of ShadowPods: %w", ctx.Err())
		case <-limit.C():
			return e.list(ctx, user, fence)
		}
	}
	return nil
}

// list reads the ShadowPods of a user without the cache. The list is newer than the version.
func (e *Enforcer) list(ctx context.Context, user string, version uint64) error {
	requested := e.Clock.Now()
	shadows := &offloadingv1beta1.ShadowPodList{}
	if err := e.APIReader.List(ctx, shadows, client.MatchingLabels{offloadingv1beta1.CreatorUserLabel: user}); err != nil {
		return fmt.Errorf("listing the ShadowPods of user %q: %w", user, err)
	}
	for i := range shadows.Items {
		completed, err := complete(ctx, e.Account.reader, &shadows.Items[i])
		if err != nil {
			return err
		}
		shadows.Items[i] = *completed
	}
	e.Account.replace(user, shadows.Items, max(version, parseVersion(shadows.ResourceVersion)), requested)
	return nil
}

func trimContainers(containers []corev1.Container) []corev1.Container {
	var kept []corev1.Container
	for i := range containers {
		kept = append(kept, corev1.Container{
			Name: containers[i].Name, Resources: containers[i].Resources, RestartPolicy: containers[i].RestartPolicy,
		})
	}
	return kept
}
