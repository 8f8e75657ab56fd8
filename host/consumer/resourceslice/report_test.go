package resourceslice

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
	"github.com/longshore-dev/longshore/host/consumer/identity"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// A slice that was applied with kubectl.
func TestASliceSaysWhatKeepsItFromItsProvider(t *testing.T) {
	const setThem = ". Set them: kubectl label --overwrite -n liqo-tenant-milan resourceslices.authentication.liqo.io gpu "
	for name, tc := range map[string]struct {
		labels map[string]string
		event  string
	}{
		"no labels": {nil, "It is not sent to a provider, because it lacks the labels liqo.io/remote-cluster-id=milan, liqo.io/remoteID=milan, liqo.io/replication=true" +
			setThem + "liqo.io/remote-cluster-id=milan liqo.io/remoteID=milan liqo.io/replication=true"},
		"replication is off": {
			map[string]string{liqocorev1beta1.ReplicationLabel: "false", liqocorev1beta1.RemoteIDLabel: "milan", liqocorev1beta1.RemoteClusterIDLabel: "milan"},
			"lacks the labels liqo.io/replication=true" + setThem,
		},
		"a copy of another cluster's": {map[string]string{liqocorev1beta1.ReplicatedLabel: "true"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "gpu", Labels: tc.labels}}
			recorder := events.NewFakeRecorder(10)
			r := &Reconciler{Client: fakeclient.Builder(authentication.TenantNamespace("milan"), slice).Build(), Events: recorder}
			_, err := r.Reconcile(t.Context(), slice)
			require.NoError(t, err)
			close(recorder.Events)
			event := <-recorder.Events
			if tc.event == "" {
				assert.Empty(t, event)
				return
			}
			assert.Contains(t, event, "Warning LabelsMissing ")
			assert.Contains(t, event, tc.event)
		})
	}
}

func TestAnAcceptedSliceWithoutAVirtualNodeSaysWhy(t *testing.T) {
	key, err := authentication.NewKey()
	require.NoError(t, err)
	private, _, err := authentication.EncodeKey(key)
	require.NoError(t, err)
	tenant := authentication.TenantNamespace("milan")
	keys := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: authentication.KeysSecretName, Namespace: "longshore"}, Data: map[string][]byte{"privateKey": private}}
	slice := authentication.ResourceSlice(tenant.Name, "gpu", "milan", nil, authv1beta1.ResourceSliceSpec{})
	slice.Status.Conditions = conditions(authv1beta1.ResourceSliceConditionAccepted, authv1beta1.ResourceSliceConditionAccepted)
	slice.Status.AuthParams = &authv1beta1.AuthParams{SignedCRT: certificateOf(t, key)}
	made := &authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Name, Name: authentication.SliceIdentityName("gpu")}}
	made.Status.KubeconfigSecretRef = &corev1.LocalObjectReference{Name: "kubeconfig"}
	c := fakeclient.Builder(tenant, keys, slice, made).Build()
	reconcile := func() string {
		t.Helper()
		recorder := events.NewFakeRecorder(10)
		r := &Reconciler{Client: c, Events: recorder, Keys: &identity.Keys{Client: c, APIReader: c, Namespace: "longshore"}, ClusterID: "rome"}
		for range 2 { // The first completes the slice.
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(slice), slice))
			_, err := r.Reconcile(t.Context(), slice)
			require.NoError(t, err)
		}
		close(recorder.Events)
		return <-recorder.Events
	}
	assert.Contains(t, reconcile(), "Normal VirtualNodeNotRequested The provider accepted the slice, and no VirtualNode is made of it, because it lacks the annotation liqo.io/create-virtual-node=true")
	vn := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Name, Name: "other"}}
	vn.Spec.KubeconfigSecretRef = made.Status.KubeconfigSecretRef
	require.NoError(t, c.Create(t.Context(), vn))
	assert.Empty(t, reconcile(), "one uses its credentials")
}
