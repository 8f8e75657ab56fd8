package virtualnode

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
)

// testRestricted creates the virtual kubelet's pod in a namespace that enforces the Pod Security
// standard "restricted".
func testRestricted(t *testing.T, api client.Client) {
	t.Helper()
	const tenant = "liqo-tenant-milan"
	require.NoError(t, api.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: tenant, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}))
	require.NoError(t, api.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "mynode", Namespace: tenant}}))
	vn := virtualNode(nil)
	require.NoError(t, virtualkubelet.Complete(vn, options(), virtualkubelet.Cluster{ID: "rome", Namespace: "longshore"}))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "vk-mynode", Namespace: tenant}, Spec: vn.Spec.Template.Spec.Template.Spec}
	assert.NoError(t, api.Create(t.Context(), pod.DeepCopy(), client.DryRunAll))

	pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{}
	err := api.Create(t.Context(), pod, client.DryRunAll)
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	assert.ErrorContains(t, err, "PodSecurity")
}
