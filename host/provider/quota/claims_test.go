package quota

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
)

func claimNamed(name, storage string) Claim {
	return Claim{types.NamespacedName{Namespace: "shop-rome", Name: name}, resource.MustParse(storage)}
}

func storageQuota(name string, age time.Duration, change func(*offloadingv1beta1.Quota)) *offloadingv1beta1.Quota {
	quota := &offloadingv1beta1.Quota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: name, CreationTimestamp: metav1.NewTime(time.Unix(10000, 0).Add(-age))},
		Spec:       offloadingv1beta1.QuotaSpec{User: name, Resources: corev1.ResourceList{"requests.storage": resource.MustParse("10Gi")}},
	}
	if change != nil {
		change(quota)
	}
	return quota
}

func TestClaimsStayWithinTheGrant(t *testing.T) {
	now := time.Unix(10000, 0)
	admitted := func(name, storage string, ago time.Duration) offloadingv1beta1.QuotaClaim {
		return offloadingv1beta1.QuotaClaim{Namespace: "shop-rome", Name: name, Storage: resource.MustParse(storage), Time: metav1.NewTime(now.Add(-ago))}
	}
	bomb := resource.Quantity{Format: resource.DecimalSI}
	require.NoError(t, bomb.UnmarshalJSON([]byte(`"1e30000000"`)))
	for name, tc := range map[string]struct {
		stored  []Claim
		pending []offloadingv1beta1.QuotaClaim
		claim   Claim
		denied  string
		// left is how many claims are pending then.
		left int
	}{
		"it fits":                     {claim: claimNamed("a", "10Gi"), left: 1},
		"too large":                   {claim: claimNamed("a", "11Gi"), denied: "exceeded requests.storage of the consumer's Quotas: requested 11Gi; used 0; granted 10Gi"},
		"too large beside another":    {stored: []Claim{claimNamed("b", "5Gi")}, claim: claimNamed("a", "6Gi"), denied: "used 5Gi"},
		"beside one that is pending":  {pending: []offloadingv1beta1.QuotaClaim{admitted("b", "5Gi", time.Second)}, claim: claimNamed("a", "6Gi"), denied: "used 5Gi"},
		"the pending one has expired": {pending: []offloadingv1beta1.QuotaClaim{admitted("b", "5Gi", 2*time.Minute)}, claim: claimNamed("a", "6Gi"), left: 1},
		"the pending one is stored":   {stored: []Claim{claimNamed("b", "4Gi")}, pending: []offloadingv1beta1.QuotaClaim{admitted("b", "4Gi", 11*time.Second)}, claim: claimNamed("a", "6Gi"), left: 1},
		"other replicas may not know": {stored: []Claim{claimNamed("b", "4Gi")}, pending: []offloadingv1beta1.QuotaClaim{admitted("b", "4Gi", 9*time.Second)}, claim: claimNamed("a", "6Gi"), left: 2},
		"an expansion":                {stored: []Claim{claimNamed("a", "4Gi")}, claim: claimNamed("a", "10Gi"), left: 1},
		"a pending expansion counts":  {stored: []Claim{claimNamed("b", "1Gi")}, pending: []offloadingv1beta1.QuotaClaim{admitted("b", "9Gi", time.Second)}, claim: claimNamed("a", "2Gi"), denied: "used 9Gi"},
		"an expansion that is too large": {
			stored: []Claim{claimNamed("a", "4Gi"), claimNamed("b", "5Gi")}, claim: claimNamed("a", "6Gi"), denied: "requested 6Gi; used 5Gi",
		},
		"smaller, while more is used than granted": {stored: []Claim{claimNamed("a", "20Gi")}, claim: claimNamed("a", "19Gi")},
		"the same name again":                      {pending: []offloadingv1beta1.QuotaClaim{admitted("a", "9Gi", time.Second)}, claim: claimNamed("a", "9Gi"), left: 1},
		"an exponent that takes hours":             {claim: Claim{claimNamed("a", "1").NamespacedName, bomb}, denied: "at most"},
		"a stored one that takes hours":            {stored: []Claim{{claimNamed("b", "1").NamespacedName, bomb}}, claim: claimNamed("a", "1"), denied: "exceeded"},
		"a negative one":                           {claim: claimNamed("a", "-1"), denied: "negative"},
	} {
		t.Run(name, func(t *testing.T) {
			quota := storageQuota("gpu", 0, nil)
			quota.Status.Claims = tc.pending
			status, err := reserveClaim(quota, quota.Spec.Resources["requests.storage"], tc.stored, tc.claim, now)
			if tc.denied != "" {
				require.ErrorContains(t, err, tc.denied)
				return
			}
			require.NoError(t, err)
			assert.Len(t, status.Claims, tc.left)
		})
	}
}

func TestTheGrantOfStorageIsThatOfAllSlices(t *testing.T) {
	storage := func(key corev1.ResourceName, amount string) func(*offloadingv1beta1.Quota) {
		return func(q *offloadingv1beta1.Quota) {
			q.Spec.Resources = corev1.ResourceList{"cpu": resource.MustParse("1"), key: resource.MustParse(amount)}
		}
	}
	for name, tc := range map[string]struct {
		quotas         []*offloadingv1beta1.Quota
		first, granted string
	}{
		"none":               {nil, "", "0"},
		"none names storage": {[]*offloadingv1beta1.Quota{storageQuota("a", 0, storage("memory", "1"))}, "", "0"},
		"two":                {[]*offloadingv1beta1.Quota{storageQuota("a", 0, nil), storageQuota("b", time.Hour, nil)}, "b", "20Gi"},
		"both keys":          {[]*offloadingv1beta1.Quota{storageQuota("a", 0, storage("storage", "1Gi")), storageQuota("b", time.Hour, nil)}, "b", "11Gi"},
		"one is cordoned": {[]*offloadingv1beta1.Quota{storageQuota("a", 0, nil), storageQuota("b", time.Hour, func(q *offloadingv1beta1.Quota) {
			q.Spec.Cordoned = ptr.To(true)
		})}, "b", "10Gi"},
		"the only one is cordoned": {[]*offloadingv1beta1.Quota{storageQuota("a", 0, func(q *offloadingv1beta1.Quota) { q.Spec.Cordoned = ptr.To(true) })}, "a", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			var quotas []offloadingv1beta1.Quota
			for _, quota := range tc.quotas {
				quotas = append(quotas, *quota)
			}
			first, granted := storageGrant(quotas)
			assert.Equal(t, tc.first, ptr.Deref(first, offloadingv1beta1.Quota{}).Name)
			assert.Zero(t, granted.Cmp(resource.MustParse(tc.granted)), granted.String())
		})
	}
}

// The first request of a name may not be stored, and the second one later than what was admitted for the first counts.
func TestAClaimThatIsAdmittedAgainCountsFromThenOn(t *testing.T) {
	now := time.Unix(10000, 0)
	quota := storageQuota("gpu", 0, nil)
	quota.Status.Claims = []offloadingv1beta1.QuotaClaim{
		{Namespace: "shop-rome", Name: "a", Storage: resource.MustParse("9Gi"), Time: metav1.NewTime(now.Add(-time.Minute))},
	}
	status, err := reserveClaim(quota, resource.MustParse("10Gi"), nil, claimNamed("a", "9Gi"), now)
	require.NoError(t, err)
	require.Len(t, status.Claims, 1)
	assert.Equal(t, now, status.Claims[0].Time.Time)
}

func TestATrimmedClaimRequestsTheSame(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "a", Namespace: "shop-rome", UID: "u", ResourceVersion: "7", Annotations: map[string]string{"note": "long"},
	}}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("4Gi"), "other": resource.MustParse("1")}
	trimmed, err := TrimClaim(claim)
	require.NoError(t, err)
	kept, ok := trimmed.(*corev1.PersistentVolumeClaim)
	require.True(t, ok)
	assert.Equal(t, ClaimOf(claim), ClaimOf(kept))
	assert.Empty(t, kept.Annotations)
	assert.Equal(t, "7", kept.ResourceVersion)
}

// Claims of one consumer are decided one after the other, and delay no other consumer's.
func TestClaimsOfAConsumerWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fakeclient.Builder(storageQuota("gpu", 0, nil)).Build()
		e := &Enforcer{Client: c, APIReader: c, Clock: clock.RealClock{}}
		var deciding, most atomic.Int32
		admit := func(ctx context.Context, tenant string) error {
			return e.AdmitClaim(ctx, claimNamed("a", "1Gi"), true, Claimant{
				Tenant: tenant, IsUnmanaged: func(context.Context) (bool, error) { return true, nil },
				Claims: func(context.Context) ([]Claim, error) {
					most.Store(max(most.Load(), deciding.Add(1)))
					defer deciding.Add(-1)
					time.Sleep(time.Second)
					return nil, nil
				},
			})
		}
		start := time.Now()
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { assert.NoError(t, admit(t.Context(), "liqo-tenant-rome")) })
		}
		synctest.Wait()
		require.NoError(t, admit(t.Context(), "liqo-tenant-oslo"))
		assert.Zero(t, time.Since(start), "another consumer, without a Quota")
		hurried, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		require.ErrorIs(t, admit(hurried, "liqo-tenant-rome"), context.DeadlineExceeded)
		all.Wait()
		assert.Equal(t, 20*time.Second, time.Since(start))
		assert.EqualValues(t, 1, most.Load())
		assert.Empty(t, e.claims.lines)
	})
}

// TestReplicasAdmitClaimsOneAfterTheOther has another replica admit a claim between the list and the write.
func TestReplicasAdmitClaimsOneAfterTheOther(t *testing.T) {
	quota := storageQuota("gpu", 0, nil)
	conflicts := 0
	c := fakeclient.Builder(quota).WithInterceptorFuncs(interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, name string, object client.Object, options ...client.SubResourceUpdateOption) error {
			if conflicts++; conflicts == 1 {
				other := &offloadingv1beta1.Quota{}
				require.NoError(t, c.Get(ctx, client.ObjectKeyFromObject(object), other))
				other.Status.Claims = []offloadingv1beta1.QuotaClaim{{Namespace: "bank-rome", Name: "b", Storage: resource.MustParse("8Gi"), Time: metav1.NewTime(time.Unix(10000, 0))}}
				require.NoError(t, c.SubResource(name).Update(ctx, other))
			}
			return c.SubResource(name).Update(ctx, object, options...)
		},
	}).Build()
	clock := clocktesting.NewFakeClock(time.Unix(10000, 0))
	e := &Enforcer{Client: c, APIReader: c, Clock: clock}
	admit := func(tenant string, claim Claim, dryRun bool) error {
		return e.AdmitClaim(t.Context(), claim, dryRun, Claimant{
			Tenant: tenant, IsUnmanaged: func(context.Context) (bool, error) { return true, nil },
			Claims: func(context.Context) ([]Claim, error) { return nil, nil },
		})
	}
	var denied *Denied
	require.ErrorAs(t, admit("liqo-tenant-rome", claimNamed("a", "3Gi"), false), &denied)
	require.NoError(t, admit("liqo-tenant-rome", claimNamed("a", "2Gi"), true), "a dry run reserves nothing")
	require.NoError(t, admit("liqo-tenant-rome", claimNamed("a", "2Gi"), false))
	require.ErrorAs(t, admit("liqo-tenant-rome", claimNamed("c", "1Gi"), false), &denied)
	require.NoError(t, admit("liqo-tenant-oslo", claimNamed("c", "1Ti"), false), "nothing bounds another consumer")
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(quota), quota))
	assert.Len(t, quota.Status.Claims, 2)
	status, err := refresh(quota, newUsage(), clock.Now())
	require.NoError(t, err)
	assert.Equal(t, quota.Status.Claims, status.Claims, "decisions about ShadowPods keep them")
}
