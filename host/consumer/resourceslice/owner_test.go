package resourceslice

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
	"github.com/longshore-dev/longshore/host/consumer/identity"
	"github.com/longshore-dev/longshore/host/internal/testkit/hostile"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// The virtual kubelet needs the kubeconfig until its pods have ended, which is after the slice is gone.
func TestTheCredentialsStayUntilTheVirtualNodeIsWithdrawn(t *testing.T) {
	key, err := authentication.NewKey()
	require.NoError(t, err)
	private, _, err := authentication.EncodeKey(key)
	require.NoError(t, err)
	tenant := authentication.TenantNamespace("milan")
	keys := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: authentication.KeysSecretName, Namespace: "longshore"}, Data: map[string][]byte{"privateKey": private}}
	slice := authentication.ResourceSlice(tenant.Name, "gpu", "milan", nil, authv1beta1.ResourceSliceSpec{})
	slice.UID, slice.Annotations = "slice", map[string]string{authv1beta1.CreateVirtualNodeAnnotation: "true"}
	slice.Status.Conditions = conditions(authv1beta1.ResourceSliceConditionAccepted, authv1beta1.ResourceSliceConditionAccepted)
	slice.Status.AuthParams = &authv1beta1.AuthParams{SignedCRT: certificateOf(t, key)}
	c := fakeclient.Builder(tenant, keys, slice).Build()
	r := &Reconciler{Client: c, Events: events.NewFakeRecorder(10), Keys: &identity.Keys{Client: c, APIReader: c, Namespace: "longshore"}, ClusterID: "rome"}
	made := &authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Name, Name: authentication.SliceIdentityName("gpu")}}
	owners := func() []string {
		t.Helper()
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(slice), slice))
		_, err := r.Reconcile(t.Context(), slice)
		require.NoError(t, err)
		var kinds []string
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(made), made); err == nil {
			for _, owner := range made.OwnerReferences {
				kinds = append(kinds, owner.Kind)
			}
		}
		return kinds
	}
	assert.Empty(t, owners(), "the slice is completed")
	assert.Equal(t, []string{"ResourceSlice"}, owners(), "there is no kubeconfig yet")
	made.Status.KubeconfigSecretRef = &corev1.LocalObjectReference{Name: "kubeconfig"}
	require.NoError(t, c.Status().Update(t.Context(), made))
	assert.Equal(t, []string{"ResourceSlice", "VirtualNode"}, owners())
	assert.True(t, metav1.IsControlledBy(made, slice))
	version := made.ResourceVersion
	assert.Equal(t, []string{"ResourceSlice", "VirtualNode"}, owners())
	assert.Equal(t, version, made.ResourceVersion, "nothing is written again")

	// A provider grants amounts that nothing may compute with; the VirtualNode may have some already.
	vn := &offloadingv1beta1.VirtualNode{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(slice), vn))
	vn.Spec.ResourceQuota.Hard = corev1.ResourceList{corev1.ResourceCPU: hostile.Quantities()["1e2000000000"]}
	require.NoError(t, c.Update(t.Context(), vn))
	recorder := events.NewFakeRecorder(100)
	r.Events = recorder
	granted := hostile.Quantities()
	granted["138000000000000"] = resource.MustParse("138000000000000") // The scheduler's numbers overflow.
	for text, amount := range granted {
		slice.Status.Resources = corev1.ResourceList{corev1.ResourceCPU: amount}
		require.NoError(t, c.Status().Update(t.Context(), slice))
		owners()
		assert.Contains(t, <-recorder.Events, "InvalidResources Cluster milan grants resources that no Node can have", "%.30s", text)
	}
	slice.Status.Resources = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	for _, set := range []func(map[string]string){
		func(invalid map[string]string) { slice.Status.NodeLabels = invalid },
		func(invalid map[string]string) { slice.Status.NodeSelector = invalid },
	} {
		set(map[string]string{"bad label!": "x"})
		require.NoError(t, c.Status().Update(t.Context(), slice))
		owners()
		assert.Contains(t, <-recorder.Events, "InvalidLabels Cluster milan reports labels that no Node can have")
		set(nil)
	}
	require.NoError(t, c.Status().Update(t.Context(), slice))
	owners()
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(slice), vn))
	assert.Equal(t, "1", vn.Spec.ResourceQuota.Hard.Cpu().String())

	slice.Status.Conditions = conditions(authv1beta1.ResourceSliceConditionDenied, authv1beta1.ResourceSliceConditionAccepted)
	require.NoError(t, c.Status().Update(t.Context(), slice))
	assert.Empty(t, owners(), "credentials that are denied go at once")
}
