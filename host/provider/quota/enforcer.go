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
type Enforcer struct {
	// Client reads Quotas from a cache with the index of [Index], and writes their status.
	Client client.Client
	// APIReader reads past the cache.
	APIReader client.Reader
	Account   *Account
	Clock     clock.Clock

	mu     sync.Mutex
	queues map[string]*queue
}

// queue has the ShadowPods that wait for a decision on one user's Quota.
type queue struct {
	waiting []*call
	// written is the Quota as this replica wrote it last.
	written *offloadingv1beta1.Quota
}

type call struct {
	shadow *offloadingv1beta1.ShadowPod
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

// Admit reserves the resources of a new ShadowPod of a user in the user's Quota, unless it is a
// dry run. It returns a [Denied] error if the Quota does not admit it. The user is given by its
// label value.
func (e *Enforcer) Admit(ctx context.Context, user string, shadow *offloadingv1beta1.ShadowPod, dryRun bool) error {
	c := &call{shadow: shadow, dryRun: dryRun, done: make(chan error, 1)}
	e.mu.Lock()
	q := e.queues[user]
	if q == nil {
		if e.queues == nil {
			e.queues = map[string]*queue{}
		}
		q = &queue{}
		e.queues[user] = q
	}
	q.waiting = append(q.waiting, c)
	if len(q.waiting) == 1 {
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

// work decides on all that waits, together, until nothing waits.
func (e *Enforcer) work(ctx context.Context, user string, q *queue) {
	for {
		e.mu.Lock()
		batch := slices.Clone(q.waiting)
		e.mu.Unlock()
		limited, cancel := context.WithTimeout(ctx, decisionTimeout)
		errs := e.decide(limited, user, q, batch)
		cancel()
		e.mu.Lock()
		q.waiting = slices.Delete(q.waiting, 0, len(batch))
		rest := len(q.waiting)
		e.mu.Unlock()
		for i, c := range batch {
			c.done <- errs[i]
		}
		if rest == 0 {
			return
		}
	}
}

// decide decides on a batch, and writes the reservations at once. When the Quota has changed, it
// decides again.
func (e *Enforcer) decide(ctx context.Context, user string, q *queue, batch []*call) []error {
	errs := make([]error, len(batch))
	fail := func(err error) []error {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	quota, err := e.quota(ctx, user, q.written)
	if err != nil {
		return fail(err)
	}
	for range maxAttempts {
		if err := e.catchUp(ctx, user, quota); err != nil {
			return fail(err)
		}
		next, reserved, err := e.reserveAll(user, quota, batch, errs)
		if errors.Is(err, errUnconfirmed) {
			err = e.list(ctx, user, 0)
			if err == nil {
				continue
			}
		}
		if err != nil {
			return fail(err)
		}
		if !reserved {
			return errs
		}
		err = e.Client.Status().Update(ctx, next)
		if err == nil {
			q.written = next
			return errs
		}
		if !apierrors.IsConflict(err) {
			return fail(fmt.Errorf("reserving resources in Quota %s/%s: %w", quota.Namespace, quota.Name, err))
		}
		quota = &offloadingv1beta1.Quota{}
		if err := e.APIReader.Get(ctx, client.ObjectKeyFromObject(next), quota); err != nil {
			return fail(fmt.Errorf("reading Quota %s/%s: %w", next.Namespace, next.Name, err))
		}
	}
	return fail(fmt.Errorf("quota %s/%s changed %d times while resources were reserved", quota.Namespace, quota.Name, maxAttempts))
}

// reserveAll returns the Quota with the reservations of a batch, and whether there are any. The
// result of each call is in errs; the error concerns all of them.
func (e *Enforcer) reserveAll(user string, quota *offloadingv1beta1.Quota, batch []*call, errs []error) (*offloadingv1beta1.Quota, bool, error) {
	next, reserved := quota.DeepCopy(), false
	var failure error
	e.Account.read(user, func(usage *Usage) {
		for i, c := range batch {
			status, err := reserve(next, usage, c.shadow, e.Clock.Now())
			errs[i] = err
			var denied *Denied
			switch {
			case errors.As(err, &denied):
			case err != nil:
				failure = err
			case !c.dryRun:
				next.Status, reserved = *status, true
			}
		}
	})
	return next, reserved, failure
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

// quota returns the Quota of a user as this replica knows it.
func (e *Enforcer) quota(ctx context.Context, user string, written *offloadingv1beta1.Quota) (*offloadingv1beta1.Quota, error) {
	first, err := e.Find(ctx, user)
	if err != nil {
		return nil, err
	}
	if first == nil {
		return nil, &Denied{fmt.Sprintf("user %s has no Quota in this cluster: its ResourceSlice is not accepted, or a Quota with spec.user is to be created by the provider's administrator", user)}
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
