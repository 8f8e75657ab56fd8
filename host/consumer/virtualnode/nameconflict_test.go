package virtualnode

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
)

// sameName returns a VirtualNode with the name of virtualNode in another tenant namespace.
func sameName(cluster string) *offloadingv1beta1.VirtualNode {
	return virtualNode(func(vn *offloadingv1beta1.VirtualNode) {
		vn.Namespace, vn.UID, vn.Spec.ClusterID = "liqo-tenant-paris", "vn-2", liqocorev1beta1.ClusterID(cluster)
		vn.Spec.Template.ObjectMeta.Namespace = vn.Namespace
	})
}

// externalRights returns the rights of a VirtualNode outside of its namespace.
func externalRights(vn *offloadingv1beta1.VirtualNode) (rights []client.Object) {
	for _, right := range virtualkubelet.Rights(vn) {
		if right.GetNamespace() != vn.Namespace {
			rights = append(rights, right)
		}
	}
	return rights
}

func nodeOf(vn *offloadingv1beta1.VirtualNode) *corev1.Node {
	node := ownNode(corev1.ConditionTrue, "")
	node.UID, node.Labels[liqocorev1beta1.RemoteClusterIDLabel] = "n", string(vn.Spec.ClusterID)
	return node
}

func deleted(vn *offloadingv1beta1.VirtualNode) *offloadingv1beta1.VirtualNode {
	now := metav1.Now()
	vn.DeletionTimestamp = &now
	return vn
}

func TestDeletionKeepsObjectsOfAnotherVirtualNodeWithTheSameName(t *testing.T) {
	podOf := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "p"}, Spec: corev1.PodSpec{NodeName: "mynode"}}
	other := sameName("paris")
	sibling := sameName("milan")
	for name, tc := range map[string]struct {
		vn       *offloadingv1beta1.VirtualNode
		existing []client.Object
	}{
		"of another provider":                           {deleted(virtualNode(nil)), append(externalRights(other), other, nodeOf(other))},
		"of the same provider":                          {deleted(virtualNode(nil)), append(externalRights(sibling), sibling, nodeOf(sibling))},
		"whose bindings were deleted":                   {deleted(virtualNode(nil)), []client.Object{sibling, nodeOf(sibling)}},
		"createNode is set to false":                    {virtualNode(withoutNode), append(externalRights(other), other, nodeOf(other))},
		"createNode is set to false, the same provider": {virtualNode(withoutNode), append(externalRights(sibling), sibling, nodeOf(sibling))},
		"which is also being deleted":                   {deleted(virtualNode(nil)), append(externalRights(deleted(sameName("milan"))), deleted(sameName("milan")), nodeOf(sibling))},
	} {
		t.Run(name, func(t *testing.T) {
			w := pass(t, tc.vn, append(append(peered(kubeconfig), podOf), tc.existing...)...)
			node := &corev1.Node{}
			require.NoError(t, w.Get(t.Context(), client.ObjectKey{Name: "mynode"}, node))
			assert.False(t, node.Spec.Unschedulable)
			require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(podOf), &corev1.Pod{}))
			for _, obj := range tc.existing {
				require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(obj), obj.DeepCopyObject().(client.Object)), "%T", obj)
			}
			if tc.vn.DeletionTimestamp != nil {
				assert.Nil(t, w.vn, "the finalizer is removed")
			}
		})
	}
}

func withoutNode(vn *offloadingv1beta1.VirtualNode) { vn.Spec.CreateNode = ptr.To(false) }

func TestDeletionDeletesOwnObjectsBesideAnotherVirtualNodeWithTheSameName(t *testing.T) {
	for name, other := range map[string]*offloadingv1beta1.VirtualNode{"of another provider": sameName("paris"), "of the same provider": sameName("milan")} {
		t.Run(name, func(t *testing.T) {
			vn := deleted(virtualNode(nil))
			own := append(externalRights(vn), nodeOf(vn), virtualkubelet.ServiceAccount(vn))
			w := pass(t, vn, append(append(peered(kubeconfig), other), own...)...)
			for _, obj := range own {
				err := w.Get(t.Context(), client.ObjectKeyFromObject(obj), obj.DeepCopyObject().(client.Object))
				assert.True(t, apierrors.IsNotFound(err), "%T: %v", obj, err)
			}
			assert.Nil(t, w.vn)
		})
	}
	t.Run("a Node whose deletion failed once, when the bindings already belong to the other one", func(t *testing.T) {
		vn, other := deleted(virtualNode(nil)), sameName("paris")
		w := pass(t, vn, append(append(peered(kubeconfig), other, nodeOf(vn)), externalRights(other)...)...)
		assert.True(t, apierrors.IsNotFound(w.Get(t.Context(), client.ObjectKey{Name: "mynode"}, &corev1.Node{})), "the label tells the owner")
	})
}

func TestDeletionKeepsUnmanagedObjectsWithTheSameName(t *testing.T) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "mynode", Namespace: "liqo-tenant-milan"}}
	binding := virtualkubelet.ClusterRoleBinding(virtualNode(nil))
	binding.Subjects = []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "auditors"}}
	w := pass(t, deleted(virtualNode(nil)), append(peered(kubeconfig), account, binding)...)
	assert.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(account), account))
	assert.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(binding), binding))
	assert.Nil(t, w.vn)
	require.Len(t, w.events, 1)
	assert.Contains(t, w.events[0], "NameTaken ClusterRoleBinding liqo-node-mynode is kept because it binds ClusterRole liqo-virtual-kubelet-local to Group auditors")
}

func TestNameConflictIsReportedInTheCondition(t *testing.T) {
	const rename = "delete this VirtualNode and create it under another name"
	orphan := virtualkubelet.ClusterRoleBinding(sameName("paris"))
	powerful := virtualkubelet.ClusterRoleBinding(virtualNode(nil))
	powerful.Name, powerful.RoleRef.Name = virtualkubelet.OwnRoleName(virtualNode(nil)), "cluster-admin"
	for name, tc := range map[string]struct {
		existing []client.Object
		want     []string
	}{
		"with another VirtualNode": {append(externalRights(sameName("paris")), sameName("paris")),
			[]string{"VirtualNode liqo-tenant-paris/mynode has the same name, and ClusterRoleBinding liqo-node-mynode belongs to its virtual kubelet: " + rename}},
		"with a binding of a VirtualNode that is gone": {[]client.Object{orphan},
			[]string{"ClusterRoleBinding liqo-node-mynode binds ClusterRole liqo-virtual-kubelet-local to ServiceAccount liqo-tenant-paris/mynode",
				"delete it if it is not needed, or " + rename}},
		"with a binding to another role": {[]client.Object{powerful},
			[]string{"ClusterRoleBinding longshore-node-mynode binds ClusterRole cluster-admin to ServiceAccount liqo-tenant-milan/mynode"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := pass(t, virtualNode(nil), append(peered(kubeconfig), tc.existing...)...)
			require.Len(t, w.events, 1)
			for _, want := range tc.want {
				assert.Contains(t, conditions(w.vn)["VirtualKubelet"], want)
				assert.Contains(t, w.events[0], want)
			}
			list := &appsv1.DeploymentList{}
			require.NoError(t, w.List(t.Context(), list))
			assert.Empty(t, list.Items, "a virtual kubelet without rights is not started")
		})
	}
}

func TestNameConflictIsReportedWithAStaleCache(t *testing.T) {
	other := sameName("paris")
	w := pass(t, virtualNode(nil), other) // Only for its client.
	for _, obj := range append(peered(kubeconfig), externalRights(other)...) {
		require.NoError(t, w.Create(t.Context(), obj))
	}
	stale := interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if _, ok := obj.(*rbacv1.ClusterRoleBinding); ok {
				return apierrors.NewNotFound(rbacv1.Resource("clusterrolebindings"), key.Name)
			}
			return c.Get(ctx, key, obj, opts...)
		},
	})
	r := &Reconciler{Client: stale, APIReader: w.Client, Events: events.NewFakeRecorder(20), Clock: testclock.NewFakePassiveClock(time.Unix(0, 0))}
	_, err := r.Reconcile(t.Context(), w.vn)
	require.NoError(t, err)
	assert.Contains(t, conditions(w.vn)["VirtualKubelet"], "VirtualNode liqo-tenant-paris/mynode has the same name")
}
