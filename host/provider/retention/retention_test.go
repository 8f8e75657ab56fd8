package retention

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
)

func claim(name, namespace, policy, volume string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, UID: types.UID(name), Annotations: map[string]string{"storage.longshore.dev/reclaim-policy": policy}},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: volume},
	}
}

func volume(name, claim string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete, ClaimRef: &corev1.ObjectReference{UID: types.UID(claim)},
	}}
}

func newClient(patched func(client.Object) error) client.Client {
	return fakeclient.Builder(
		claim("kept", "shop-rome", "Retain", "v-kept"), volume("v-kept", "kept"),
		claim("deleted", "shop-rome", "Delete", "v-deleted"), volume("v-deleted", "deleted"),
		claim("pending", "shop-rome", "Retain", ""),
		claim("lost", "shop-rome", "Retain", "v-lost"),
		claim("thief", "shop-rome", "Retain", "v-other"), volume("v-other", "other"),
		claim("other", "bazaar", "Retain", "v-bazaar"), volume("v-bazaar", "other"),
	).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
			if err := patched(o); err != nil {
				return err
			}
			return c.Patch(ctx, o, p, options...)
		},
	}).Build()
}

func TestVolumesOfClaimsThatAskForItAreRetained(t *testing.T) {
	c := newClient(func(client.Object) error { return nil })
	require.NoError(t, (&Volumes{Client: c, APIReader: c}).Retain(t.Context(), "shop-rome"))
	for name, want := range map[string]corev1.PersistentVolumeReclaimPolicy{
		"v-kept": corev1.PersistentVolumeReclaimRetain, "v-deleted": corev1.PersistentVolumeReclaimDelete,
		"v-other": corev1.PersistentVolumeReclaimDelete, "v-bazaar": corev1.PersistentVolumeReclaimDelete,
	} {
		got := &corev1.PersistentVolume{}
		require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: name}, got))
		assert.Equal(t, want, got.Spec.PersistentVolumeReclaimPolicy, name)
	}
}

func TestAVolumeThatCannotBeRetainedIsAnError(t *testing.T) {
	c := newClient(func(o client.Object) error {
		return apierrors.NewServiceUnavailable("busy")
	})
	err := (&Volumes{Client: c, APIReader: c}).Retain(t.Context(), "shop-rome")
	assert.ErrorContains(t, err, `retaining PersistentVolume "v-kept" of claim shop-rome/kept`)
}
