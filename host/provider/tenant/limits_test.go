package tenant

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
)

func limits(slices string) corev1.ResourceList {
	return corev1.ResourceList{"count/resourceslices.authentication.liqo.io": resource.MustParse(slices)}
}

func TestATenantNamespaceHasAResourceQuota(t *testing.T) {
	stored := func(slices string, annotations map[string]string) *corev1.ResourceQuota {
		return &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "longshore-consumer", Annotations: annotations},
			Spec:       corev1.ResourceQuotaSpec{Hard: limits(slices)},
		}
	}
	for name, tc := range map[string]struct {
		limits corev1.ResourceList
		// since is for how long custom resources can be counted.
		since  time.Duration
		stored *corev1.ResourceQuota
		want   string
		wait   bool
	}{
		"none is wanted":                   {since: -time.Second},
		"a new one":                        {limits: limits("100"), since: time.Second, want: "100"},
		"before Kubernetes knows the kind": {limits: limits("100"), since: -time.Second, wait: true},
		"after the manager started again":  {limits: limits("100"), since: -time.Second, stored: stored("50", nil), want: "50", wait: true},
		"other limits":                     {limits: limits("100"), since: time.Second, stored: stored("50", nil), want: "100"},
		"an administrator's limits":        {limits: limits("100"), since: time.Second, stored: stored("50", map[string]string{"longshore.dev/custom-limits": "true"}), want: "50"},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1e9, 0)
			r := &Reconciler{Client: fakeclient.Builder(tc.stored).Build(), Clock: clocktesting.NewFakePassiveClock(now), Limits: tc.limits, LimitsFrom: now.Add(-tc.since)}
			wait, err := r.limit(t.Context(), &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "rome", UID: "tenant-1"}})
			require.NoError(t, err)
			assert.Equal(t, tc.wait, wait > 0)
			quotas := &corev1.ResourceQuotaList{}
			require.NoError(t, r.Client.List(t.Context(), quotas, client.InNamespace("liqo-tenant-rome")))
			if tc.want == "" {
				assert.Empty(t, quotas.Items)
				return
			}
			require.Len(t, quotas.Items, 1)
			have := quotas.Items[0].Spec.Hard["count/resourceslices.authentication.liqo.io"]
			assert.Equal(t, tc.want, have.String())
			assert.Equal(t, tc.want == "100", len(quotas.Items[0].OwnerReferences) == 1, "it ends with its Tenant")
		})
	}
}

func TestWhatAResourceQuotaCountsIsNoChange(t *testing.T) {
	quota := func(hard string, annotations map[string]string, used string) *corev1.ResourceQuota {
		return &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Annotations: annotations}, Spec: corev1.ResourceQuotaSpec{Hard: limits(hard)},
			Status: corev1.ResourceQuotaStatus{Used: limits(used)},
		}
	}
	for name, tc := range map[string]struct {
		after *corev1.ResourceQuota
		want  bool
	}{
		"it counts more":    {quota("5", nil, "2"), false},
		"another limit":     {quota("6", nil, "1"), true},
		"other annotations": {quota("5", map[string]string{"a": "b"}, "1"), true},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, limitsChange().Update(event.UpdateEvent{ObjectOld: quota("5", nil, "1"), ObjectNew: tc.after}))
		})
	}
}
