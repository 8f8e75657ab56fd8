package quota

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
)

// replicaOf returns a replica of the webhook with a Quota that has just been created, and the number
// of its requests past the cache.
func replicaOf(quotas ...client.Object) (e *Enforcer, requests *int) {
	requests = new(int)
	cached := fakeclient.Builder(quotas...).WithIndex(&offloadingv1beta1.Quota{}, userIndex, UserOf).Build()
	writing := interceptor.NewClient(cached, interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, subresource string, object client.Object, options ...client.SubResourceUpdateOption) error {
			*requests++
			return c.SubResource(subresource).Update(ctx, object, options...)
		},
	})
	reading := interceptor.NewClient(cached, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			*requests++
			return c.Get(ctx, key, object, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			*requests++
			return c.List(ctx, list, options...)
		},
	})
	clock := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	return &Enforcer{Client: writing, APIReader: reading, Account: NewAccount(clock), Clock: clock}, requests
}

func newQuota() *offloadingv1beta1.Quota {
	quota := &offloadingv1beta1.Quota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "gpu", UID: "quota", CreationTimestamp: metav1.Unix(1e9, 0)},
		Spec:       offloadingv1beta1.QuotaSpec{User: testUser, Resources: list("4", 110)},
	}
	return quota
}

func stored(t *testing.T, e *Enforcer) *offloadingv1beta1.Quota {
	t.Helper()
	quota := newQuota()
	require.NoError(t, e.Client.Get(t.Context(), client.ObjectKeyFromObject(quota), quota))
	return quota
}

func created(name, cpu string) *offloadingv1beta1.ShadowPod {
	shadow := shadowPod(name, cpu)
	shadow.UID = types.UID(name)
	return shadow
}

// The requests that wait for one Quota are one write of its status.
func TestRequestsThatWaitAreWrittenTogether(t *testing.T) {
	const count = 20
	e, requests := replicaOf(newQuota())
	block := make(chan struct{})
	writing := e.Client
	e.Client = interceptor.NewClient(writing.(client.WithWatch), interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, _ client.Client, subresource string, object client.Object, options ...client.SubResourceUpdateOption) error {
			<-block
			return writing.SubResource(subresource).Update(ctx, object, options...)
		},
	})
	decisions := make(chan error, count)
	waiting := func() int {
		e.mu.Lock()
		defer e.mu.Unlock()
		return len(e.queue(testUser).waiting)
	}
	for i := range count {
		go func() { decisions <- e.Admit(t.Context(), testUser, nil, created(strconv.Itoa(i), "1"), false) }()
	}
	require.Eventually(t, func() bool { return waiting() == count }, time.Minute, time.Millisecond)
	close(block)
	admitted := 0
	for range count {
		err := <-decisions
		if err == nil {
			admitted++
			continue
		}
		var denied *Denied
		require.ErrorAs(t, err, &denied)
	}
	assert.Equal(t, 4, admitted, "what the Quota grants")
	assert.True(t, equal(list("4", 4), stored(t, e).Status.Used), "%v", stored(t, e).Status.Used)
	assert.LessOrEqual(t, *requests, 2, "those that came before the first write, and the others")
}

// A replica whose Quota is old reads it and decides again.
func TestAConflictIsDecidedAgain(t *testing.T) {
	e, requests := replicaOf(newQuota())
	old := stored(t, e)
	another := &Enforcer{Client: e.Client, APIReader: e.APIReader, Account: NewAccount(e.Clock), Clock: e.Clock}
	require.NoError(t, another.Admit(t.Context(), testUser, nil, created("of-another", "3"), false))
	require.Equal(t, 1, *requests)

	e.Client = interceptor.NewClient(e.Client.(client.WithWatch), interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			list.(*offloadingv1beta1.QuotaList).Items = []offloadingv1beta1.Quota{*old.DeepCopy()}
			return nil
		},
	})
	var denied *Denied
	require.ErrorAs(t, e.Admit(t.Context(), testUser, nil, created("web", "2"), false), &denied)
	assert.Equal(t, 3, *requests, "a write and a read")
	require.NoError(t, e.Admit(t.Context(), testUser, nil, created("web", "1"), false))
}

// A Quota that nothing uses is not written.
func TestAQuotaIsWrittenWhenItsUseChanges(t *testing.T) {
	e, requests := replicaOf(newQuota())
	_, err := e.Reconcile(t.Context(), newQuota())
	require.NoError(t, err)
	require.Zero(t, *requests)

	require.NoError(t, e.Admit(t.Context(), testUser, nil, created("web", "250m"), false))
	require.Equal(t, 1, *requests, "one write for a decision")
	result, err := e.Reconcile(t.Context(), stored(t, e))
	require.NoError(t, err)
	assert.Equal(t, 1, *requests, "nothing has changed")
	assert.Equal(t, reservationLifetime+time.Second, result.RequeueAfter)

	e.Clock.(*clocktesting.FakeClock).Step(result.RequeueAfter)
	_, err = e.Reconcile(t.Context(), stored(t, e))
	require.NoError(t, err)
	assert.Empty(t, stored(t, e).Status.Reservations)
	assert.Empty(t, stored(t, e).Status.Used)
}

// Users without a Quota, whose number the provider does not choose, leave nothing behind.
func TestUsersWithoutAQuotaAreForgotten(t *testing.T) {
	quota := newQuota()
	e, requests := replicaOf(quota)
	require.NoError(t, e.Admit(t.Context(), testUser, nil, created("web", "1"), false))
	var denied *Denied
	require.ErrorAs(t, e.Admit(t.Context(), "another", nil, created("web", "1"), false), &denied)
	assert.Len(t, e.queues, 1)

	before := *requests
	require.NoError(t, e.Client.Delete(t.Context(), quota))
	require.NoError(t, e.sweep(t.Context()))
	assert.Empty(t, e.queues)
	assert.Empty(t, e.Account.users)
	assert.Equal(t, before, *requests)
}

// Those of one name count once, so the grant does not bound them.
func TestReservationsAreBounded(t *testing.T) {
	quota := newQuota()
	quota.Status.Used = list("0", 0)
	require.NoError(t, reserve(quota, newUsage(), nil, created("web", "1"), time.Unix(1e9, 0)))
	for len(quota.Status.Reservations) < maxReservations {
		quota.Status.Reservations = append(quota.Status.Reservations, quota.Status.Reservations[0])
	}
	err := reserve(quota, newUsage(), nil, created("web", "1"), time.Unix(1e9, 0))
	require.ErrorIs(t, err, errTooManyReservations)
	var denied *Denied
	assert.NotErrorAs(t, err, &denied, "the consumer tries again")
}
