package virtualnode

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
)

func TestRightsAreUpdated(t *testing.T) {
	vn := virtualNode(nil)
	widened := virtualkubelet.Rights(vn)[1].(*rbacv1.ClusterRole)
	widened.Rules[0].ResourceNames = nil
	old := virtualkubelet.SupersededBindings(vn)[0]
	added := virtualkubelet.SupersededBindings(sameName("milan"))[0]
	added.SetNamespace("kube-system")
	w := pass(t, vn, append(peered(kubeconfig), widened, old, added)...)
	role := &rbacv1.ClusterRole{}
	require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(widened), role))
	assert.Equal(t, []string{"mynode"}, role.Rules[0].ResourceNames, "a change is reverted")
	assert.True(t, apierrors.IsNotFound(w.Get(t.Context(), client.ObjectKeyFromObject(old), &rbacv1.RoleBinding{})), "the binding of an earlier version is deleted")
	assert.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(added), &rbacv1.RoleBinding{}))
}

func TestEnsureNode(t *testing.T) {
	w := pass(t, virtualNode(func(vn *offloadingv1beta1.VirtualNode) { vn.Spec.CreateNode = ptr.To(false) }), peered(kubeconfig)...)
	assert.True(t, apierrors.IsNotFound(w.Get(t.Context(), client.ObjectKey{Name: "mynode"}, &corev1.Node{})))
	other := &corev1.Node{}
	other.Name = "mynode"
	w = pass(t, virtualNode(nil), append(peered(kubeconfig), other)...)
	require.NoError(t, w.Get(t.Context(), client.ObjectKey{Name: "mynode"}, other))
	assert.Empty(t, other.Labels, "a Node of that name stays as it is")
}
