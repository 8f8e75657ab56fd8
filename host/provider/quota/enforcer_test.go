package quota

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// replicaOf returns a replica of the webhook with a Quota that has just been created, and the number
// of its requests past the cache.
func replicaOf(t *testing.T, quotas ...client.Object) (e *Enforcer, requests *int) {
	t.Helper()
	requests = new(int)
	scheme := runtime.NewScheme()
	require.NoError(t, offloadingv1beta1.AddToScheme(scheme))
	cached := fake.NewClientBuilder().WithScheme(scheme).WithIndex(&offloadingv1beta1.Quota{}, userIndex, UserOf).
		WithStatusSubresource(&offloadingv1beta1.Quota{}).WithObjects(quotas...).Build()
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

// The first ShadowPod of a consumer is admitted without a request to the API server.
func TestTheFirstAdmissionOfAQuotaWaitsForNothing(t *testing.T) {
	e, requests := replicaOf(t, newQuota())
	_, err := e.Reconcile(t.Context(), newQuota())
	require.NoError(t, err)
	require.Equal(t, 1, *requests, "room is reserved when the Quota appears")
	assert.Empty(t, stored(t, e).Status.Used, "nothing runs")

	_, err = e.Reconcile(t.Context(), stored(t, e))
	require.NoError(t, err)
	require.Equal(t, 1, *requests, "nothing has changed")

	require.NoError(t, e.Admit(t.Context(), testUser, nil, created("web", "250m"), false))
	assert.Equal(t, 1, *requests)

	_, err = e.Reconcile(t.Context(), stored(t, e))
	require.NoError(t, err)
	assert.Equal(t, 2, *requests)
	assert.True(t, equal(list("250m", 1), stored(t, e).Status.Used), "%v", stored(t, e).Status.Used)
}

func TestAQuotaGivesItsFirstRoomBack(t *testing.T) {
	e, requests := replicaOf(t, newQuota())
	_, err := e.Reconcile(t.Context(), newQuota())
	require.NoError(t, err)
	quota := stored(t, e)
	require.Len(t, quota.Status.Reservations, 1)
	result, err := e.Reconcile(t.Context(), quota)
	require.NoError(t, err)
	assert.Equal(t, firstRoomLifetime+time.Second, result.RequeueAfter)

	e.Clock.(*clocktesting.FakeClock).Step(result.RequeueAfter)
	_, err = e.Reconcile(t.Context(), quota)
	require.NoError(t, err)
	assert.Empty(t, stored(t, e).Status.Reservations)
	assert.Equal(t, 2, *requests)

}

// A large ShadowPod needs the first room, too.
func TestALargeShadowPodEndsTheFirstRoom(t *testing.T) {
	e, _ := replicaOf(t, newQuota())
	_, err := e.Reconcile(t.Context(), newQuota())
	require.NoError(t, err)
	require.NoError(t, e.Admit(t.Context(), testUser, nil, created("large", "4"), true), "that of the same replica")

	holder, _ := replicaOf(t, newQuota())
	_, err = holder.Reconcile(t.Context(), newQuota())
	require.NoError(t, err)
	another := &Enforcer{Client: holder.Client, APIReader: holder.APIReader, Account: NewAccount(holder.Clock), Clock: holder.Clock}
	for _, account := range []*Account{holder.Account, another.Account} {
		account.observe(observedAs("of-another-consumer", "web", "7"))
	}
	var denied *Denied
	require.ErrorAs(t, another.Admit(t.Context(), testUser, nil, created("large", "4"), false), &denied)
	_, err = holder.Reconcile(t.Context(), stored(t, holder))
	require.NoError(t, err)
	assert.Empty(t, stored(t, holder).Status.Reservations)
	require.NoError(t, another.Admit(t.Context(), testUser, nil, created("large", "4"), false))
}

// Users without a Quota, whose number the provider does not choose, leave nothing behind.
func TestUsersWithoutAQuotaAreForgotten(t *testing.T) {
	quota := newQuota()
	e, requests := replicaOf(t, quota)
	require.NoError(t, e.Admit(t.Context(), testUser, nil, created("web", "1"), false))
	var denied *Denied
	require.ErrorAs(t, e.Admit(t.Context(), "another", nil, created("web", "1"), false), &denied)
	assert.Len(t, e.queues, 1)

	_, err := e.Reconcile(t.Context(), stored(t, e))
	require.NoError(t, err)
	require.NoError(t, e.Client.Delete(t.Context(), quota))
	require.NoError(t, e.sweep(t.Context()))
	assert.Len(t, e.queues, 1, "the Quota may be created again while a ShadowPod of it is not stored")
	e.Clock.(*clocktesting.FakeClock).Step(time.Hour)
	before := *requests
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
