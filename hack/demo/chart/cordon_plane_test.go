package chart_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// testCordonedArrival has slices that arrive before and after their tenant is cordoned, as those of a
// consumer whose Tenant was activated a moment before.
func (p *provider) testCordonedArrival(t *testing.T, control client.Client) {
	t.Helper()
	tenant := p.acceptedTenant(t)
	setCondition := func(condition authv1beta1.TenantCondition) {
		require.NoError(t, p.admin.Patch(t.Context(), tenant.DeepCopy(), client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"tenantCondition":%q}}`, condition))))
	}
	arrive := func(name string) *authv1beta1.ResourceSlice {
		slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{
			Namespace: "liqo-tenant-rome", Name: name,
			Labels: map[string]string{liqocorev1beta1.ReplicatedLabel: "true", liqocorev1beta1.OriginIDLabel: "rome", liqocorev1beta1.RemoteClusterIDLabel: "rome"},
		}}
		require.NoError(t, control.Create(t.Context(), slice))
		return slice
	}
	awaitMark := func(slice *authv1beta1.ResourceSlice, marked bool) {
		planetest.Until(t, func(t planetest.T) bool {
			require.NoError(t, p.admin.Get(t.Context(), client.ObjectKeyFromObject(slice), slice))
			return authentication.IsCordonedBy(slice, authv1beta1.CordonTenantAnnotation) == marked
		}, established, poll, "slice %s is cordoned with its tenant: %t", slice.Name, marked)
	}
	before := arrive("before-the-cordon")
	setCondition(authv1beta1.TenantConditionCordoned)
	awaitMark(before, true)
	after := arrive("after-the-cordon")
	awaitMark(after, true)
	setCondition(authv1beta1.TenantConditionActive)
	awaitMark(before, false)
	awaitMark(after, false)
	for _, slice := range []*authv1beta1.ResourceSlice{before, after} {
		require.NoError(t, p.admin.Delete(t.Context(), slice))
	}
}

// testCordon lets a consumer remove the cordons of its slice, at once and in several steps. What
// else it writes is accepted.
func (p *provider) testCordon(t *testing.T, control client.Client) {
	t.Helper()
	slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{
		Namespace: "liqo-tenant-rome", Name: "cordoned",
		Labels: map[string]string{liqocorev1beta1.ReplicatedLabel: "true", liqocorev1beta1.OriginIDLabel: "rome", liqocorev1beta1.RemoteClusterIDLabel: "rome"},
	}}
	require.NoError(t, control.Create(t.Context(), slice))
	for _, key := range []string{authv1beta1.CordonAnnotation, authv1beta1.CordonTenantAnnotation} {
		for _, value := range []string{"false", "False", "0"} {
			evades := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{
				Namespace: slice.Namespace, GenerateName: "evades-", Labels: slice.Labels, Annotations: map[string]string{key: value},
			}}
			// The API server takes a moment to learn of the policy.
			planetest.Until(t, func(t planetest.T) bool {
				err := control.Create(t.Context(), evades.DeepCopy())
				return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "only administrators of the provider")
			}, established, poll, "a slice with %s=%s is refused", key, value)
		}
		own := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{
			Namespace: slice.Namespace, GenerateName: "cordons-itself-", Labels: slice.Labels, Annotations: map[string]string{key: "true", "other": "false"},
		}}
		require.NoError(t, control.Create(t.Context(), own), "a cordon of the consumer's own harms only the consumer")
	}
	patch := func(t planetest.T, c client.Client, body string) error {
		return c.Patch(t.Context(), slice.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(body)))
	}
	for _, key := range []string{authv1beta1.CordonAnnotation, authv1beta1.CordonTenantAnnotation} {
		for _, value := range []string{"true", ""} {
			for _, attempt := range []string{
				fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, key), fmt.Sprintf(`{"metadata":{"annotations":{%q:"false"}}}`, key),
				`{"metadata":{"annotations":null,"labels":{"liqo.io/replicated":null}}}`,
				`{"metadata":{"labels":{"liqo.io/replicated":null}}}`, `{"metadata":{"labels":{"liqo.io/replicated":"false"}}}`,
				`{"metadata":{"labels":{"liqo.io/originID":null}}}`,
			} {
				// The API server takes a moment to learn of the policy.
				planetest.Until(t, func(t planetest.T) bool {
					require.NoError(t, patch(t, p.admin, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q},"labels":{"liqo.io/replicated":"true","liqo.io/originID":"rome","liqo.io/remote-cluster-id":"rome"}}}`, key, value)))
					err := patch(t, control, attempt)
					return isOfOthers(err) || apierrors.IsForbidden(err) && strings.Contains(err.Error(), "only administrators of the provider")
				}, established, poll, attempt)
			}
		}
		require.NoError(t, patch(t, control, `{"spec":{"resources":{"cpu":"1"}}}`))
		require.NoError(t, patch(t, p.admin, fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, key)))
	}
	p.testCordonReachesQuota(t, control, slice)
}

// testCordonReachesQuota cordons a slice which its consumer keeps from being reconciled: without a
// certificate request, as that of another cluster, and being deleted with a finalizer.
func (p *provider) testCordonReachesQuota(t *testing.T, control client.Client, slice *authv1beta1.ResourceSlice) {
	t.Helper()
	for name, body := range map[string]string{
		"without a request":  `{"spec":{"csr":null}}`,
		"of another cluster": `{"spec":{"csr":"eA==","consumerClusterID":"oslo"}}`,
		"being deleted":      `{"metadata":{"finalizers":["example.com/stays"]}}`,
	} {
		evaded := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{
			Namespace: slice.Namespace, Name: "evaded-" + strings.ReplaceAll(name, " ", "-"), Labels: slice.Labels,
		}}
		require.NoError(t, control.Create(t.Context(), evaded))
		quota := &offloadingv1beta1.Quota{
			ObjectMeta: metav1.ObjectMeta{Namespace: slice.Namespace, Name: evaded.Name + "-0123456789ab"},
			Spec: offloadingv1beta1.QuotaSpec{
				User: evaded.Name + "-0123456789ab", LimitsEnforcement: offloadingv1beta1.NoLimitsEnforcement,
				Resources: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
			},
		}
		require.NoError(t, controllerutil.SetControllerReference(evaded, quota, p.scheme))
		require.NoError(t, p.admin.Create(t.Context(), quota))
		writer := control
		if name == "being deleted" {
			writer = p.admin // The API server refuses finalizers of a consumer.
		}
		require.NoError(t, writer.Patch(t.Context(), evaded.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(body))))
		if name == "being deleted" {
			require.NoError(t, control.Delete(t.Context(), evaded.DeepCopy()))
		}
		require.NoError(t, p.admin.Patch(t.Context(), evaded.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"liqo.io/cordon":"true"}}}`))))
		require.Eventually(t, func() bool {
			err := p.admin.Get(t.Context(), client.ObjectKeyFromObject(quota), quota)
			return err == nil && ptr.Deref(quota.Spec.Cordoned, false)
		}, established, poll, "the Quota of a slice %s is cordoned", name)
	}
}
