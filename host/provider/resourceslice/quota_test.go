package resourceslice

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
)

// romeUser is the user of rome's slice gpu: a dash and 12 digits of SHA-256("rome") follow.
const romeUser = "gpu-a8a4c692b93b"

func grantedSlice(status authv1beta1.ResourceSliceConditionStatus, annotations map[string]string) *authv1beta1.ResourceSlice {
	return &authv1beta1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu", Namespace: "liqo-tenant-rome", UID: "slice-1", Annotations: annotations},
		Spec:       authv1beta1.ResourceSliceSpec{ConsumerClusterID: ptr.To(liqocorev1beta1.ClusterID("rome"))},
		Status: authv1beta1.ResourceSliceStatus{
			Resources:  list(map[corev1.ResourceName]string{"cpu": "4"}),
			Conditions: []authv1beta1.ResourceSliceCondition{{Type: authv1beta1.ResourceSliceConditionTypeResources, Status: status}},
		},
	}
}

func TestQuotaOfASlice(t *testing.T) {
	accepted := authv1beta1.ResourceSliceConditionAccepted
	for name, tc := range map[string]struct {
		status      authv1beta1.ResourceSliceConditionStatus
		annotations map[string]string
		tenant      authv1beta1.TenantCondition
		cordoned    *bool
	}{
		"accepted":                     {status: accepted},
		"cordoned":                     {status: accepted, annotations: map[string]string{"liqo.io/cordon": "true"}, cordoned: ptr.To(true)},
		"cordoned without a value":     {status: accepted, annotations: map[string]string{"liqo.io/cordon": ""}, cordoned: ptr.To(true)},
		"cordoned with its tenant":     {status: accepted, annotations: map[string]string{"liqo.io/cordon-tenant": "true"}, cordoned: ptr.To(true)},
		"of a cordoned tenant":         {status: accepted, annotations: map[string]string{"liqo.io/cordon-tenant": "false"}, tenant: authv1beta1.TenantConditionCordoned, cordoned: ptr.To(true)},
		"annotated as not cordoned":    {status: accepted, annotations: map[string]string{"liqo.io/cordon": "false", "liqo.io/cordon-tenant": "0"}},
		"annotated with another False": {status: accepted, annotations: map[string]string{"liqo.io/cordon": "False"}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := quotaSpec(grantedSlice(tc.status, tc.annotations), tc.tenant, offloadingv1beta1.SoftLimitsEnforcement)
			assert.Equal(t, romeUser, spec.User)
			assert.Equal(t, offloadingv1beta1.SoftLimitsEnforcement, spec.LimitsEnforcement)
			assert.Equal(t, "4", spec.Resources.Cpu().String())
			assert.Equal(t, tc.cordoned, spec.Cordoned)
		})
	}
}

func TestAQuotaFollowsItsSlice(t *testing.T) {
	r := &Reconciler{Client: fakeclient.Builder().Build(), LimitsEnforcement: offloadingv1beta1.NoLimitsEnforcement}
	quota := &offloadingv1beta1.Quota{}
	get := func() {
		t.Helper()
		require.NoError(t, r.Client.Get(t.Context(), client.ObjectKey{Namespace: "liqo-tenant-rome", Name: romeUser}, quota))
	}
	slice := grantedSlice(authv1beta1.ResourceSliceConditionAccepted, nil)
	require.NoError(t, r.keepQuota(t.Context(), slice, authv1beta1.TenantConditionActive, nil))
	get()
	assert.True(t, metav1.IsControlledBy(quota, slice))

	quota.Status.ObservedResourceVersion = "1"
	require.NoError(t, r.Client.Status().Update(t.Context(), quota))
	quota.Spec.Resources = list(map[corev1.ResourceName]string{"cpu": "9999"})
	require.NoError(t, r.Client.Update(t.Context(), quota))
	require.NoError(t, r.keepQuota(t.Context(), slice, authv1beta1.TenantConditionActive, nil))
	get()
	assert.Equal(t, "4", quota.Spec.Resources.Cpu().String(), "edits are reverted")
	assert.Equal(t, "1", quota.Status.ObservedResourceVersion, "the status is the webhook's")

	version := quota.ResourceVersion
	require.NoError(t, r.keepQuota(t.Context(), slice, authv1beta1.TenantConditionActive, nil))
	get()
	assert.Equal(t, version, quota.ResourceVersion, "an equal Quota is not written")
}
