package virtualnode

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
)

func TestANetworkPolicyFollowsTheOptions(t *testing.T) {
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "vk-milan", UID: "1", Generation: 1},
		Spec:       appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}},
	}
	deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "virtual-kubelet"}}
	reads := 0
	c := fakeclient.Builder().WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			reads++
			return c.Get(ctx, key, object, options...)
		},
	}).Build()
	var r *process
	// start is a manager that starts with these options.
	start := func(access *virtualkubelet.NetworkAccess) {
		t.Helper()
		r = &process{Client: c, APIReader: c, NetworkAccess: access, networkPolicies: &sync.Map{}}
		require.NoError(t, r.ensureNetworkPolicy(t.Context(), deployment))
	}
	port := func() (int, error) {
		found := &networkingv1.NetworkPolicy{}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(deployment), found); err != nil {
			return 0, err
		}
		assert.Equal(t, *deployment.Spec.Selector, found.Spec.PodSelector)
		return found.Spec.Ingress[0].Ports[0].Port.IntValue(), nil
	}
	start(nil)
	_, err := port()
	assert.True(t, apierrors.IsNotFound(err), "they are off by default")

	start(&virtualkubelet.NetworkAccess{})
	got, err := port()
	require.NoError(t, err)
	assert.Equal(t, 10250, got)

	reads = 0
	require.NoError(t, r.ensureNetworkPolicy(t.Context(), deployment))
	assert.Zero(t, reads, "a Deployment that has not changed costs nothing")

	deployment.Generation++
	deployment.Spec.Template.Spec.Containers[0].Args = []string{"--listen-port=7000"}
	require.NoError(t, r.ensureNetworkPolicy(t.Context(), deployment))
	got, err = port()
	require.NoError(t, err)
	assert.Equal(t, 7000, got, "it follows the Deployment")

	start(nil)
	_, err = port()
	assert.True(t, apierrors.IsNotFound(err), "it ends when they are switched off")

	unmanaged := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: deployment.Namespace, Name: deployment.Name}}
	require.NoError(t, c.Create(t.Context(), unmanaged))
	start(&virtualkubelet.NetworkAccess{})
	start(nil)
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(unmanaged), unmanaged))
	assert.Empty(t, unmanaged.Spec.Ingress, "an unmanaged policy stays as it is")
}
