package virtualnode

import (
	"context"
	"slices"
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
)

// rival has the name of virtualNode in another tenant namespace.
func rival(cluster string) *offloadingv1beta1.VirtualNode {
	return virtualNode(func(vn *offloadingv1beta1.VirtualNode) {
		vn.Namespace, vn.UID, vn.Spec.ClusterID = "liqo-tenant-paris", "vn-2", liqocorev1beta1.ClusterID(cluster)
		vn.Spec.Template.ObjectMeta.Namespace = vn.Namespace
	})
}

// bound are what is bound for a VirtualNode outside of its namespace.
func bound(vn *offloadingv1beta1.VirtualNode) []client.Object {
	return slices.DeleteFunc(ForgeRights(vn), func(o client.Object) bool { return o.GetNamespace() == vn.Namespace })
}

func nodeOf(vn *offloadingv1beta1.VirtualNode) *corev1.Node {
	node := ownNode(corev1.ConditionTrue, "")
	node.UID, node.Labels[liqocorev1beta1.RemoteClusterIDLabel] = "n", string(vn.Spec.ClusterID)
	return node
}

func ended(vn *offloadingv1beta1.VirtualNode) *offloadingv1beta1.VirtualNode {
	now := metav1.Now()
	vn.DeletionTimestamp = &now
	return vn
}

func TestAVirtualNodeThatGoesTakesNothingOfItsNamesake(t *testing.T) {
	podOf := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "p"}, Spec: corev1.PodSpec{NodeName: "mynode"}}
	other := rival("paris")
	sibling := rival("milan") // of the same provider
	for name, tc := range map[string]struct {
		goes     *offloadingv1beta1.VirtualNode
		existing []client.Object
	}{
		"of another provider":                       {ended(virtualNode(nil)), append(bound(other), other, nodeOf(other))},
		"of the same provider":                      {ended(virtualNode(nil)), append(bound(sibling), sibling, nodeOf(sibling))},
		"whose bindings somebody deleted":           {ended(virtualNode(nil)), []client.Object{sibling, nodeOf(sibling)}},
		"when it shall have no Node any more":       {virtualNode(withoutNode), append(bound(other), other, nodeOf(other))},
		"of the same provider, likewise":            {virtualNode(withoutNode), append(bound(sibling), sibling, nodeOf(sibling))},
		"when that one is in the course of leaving": {ended(virtualNode(nil)), append(bound(ended(rival("milan"))), ended(rival("milan")), nodeOf(sibling))},
	} {
		t.Run(name, func(t *testing.T) {
			w := pass(t, tc.goes, append(append(peered(kubeconfig), podOf), tc.existing...)...)
			node := &corev1.Node{}
			require.NoError(t, w.Get(t.Context(), client.ObjectKey{Name: "mynode"}, node))
			assert.False(t, node.Spec.Unschedulable)
			require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(podOf), &corev1.Pod{}))
			for _, obj := range tc.existing {
				require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(obj), obj.DeepCopyObject().(client.Object)), "%T", obj)
			}
			if tc.goes.DeletionTimestamp != nil {
				assert.Nil(t, w.vn, "it holds nothing of its own back")
			}
		})
	}
}

func withoutNode(vn *offloadingv1beta1.VirtualNode) { vn.Spec.CreateNode = ptr.To(false) }

func TestAVirtualNodeThatGoesTakesWhatIsItsOwnBesideANamesake(t *testing.T) {
	for name, waiting := range map[string]*offloadingv1beta1.VirtualNode{"of another provider": rival("paris"), "of the same provider": rival("milan")} {
		t.Run(name, func(t *testing.T) {
			vn := ended(virtualNode(nil))
			mine := append(bound(vn), nodeOf(vn), ForgeServiceAccount(vn))
			w := pass(t, vn, append(append(peered(kubeconfig), waiting), mine...)...)
			for _, obj := range mine {
				err := w.Get(t.Context(), client.ObjectKeyFromObject(obj), obj.DeepCopyObject().(client.Object))
				assert.True(t, apierrors.IsNotFound(err), "%T: %v", obj, err)
			}
			assert.Nil(t, w.vn)
		})
	}
	t.Run("a Node whose deletion failed once, when the namesake has bound its own already", func(t *testing.T) {
		vn, waiting := ended(virtualNode(nil)), rival("paris")
		w := pass(t, vn, append(append(peered(kubeconfig), waiting, nodeOf(vn)), bound(waiting)...)...)
		assert.True(t, apierrors.IsNotFound(w.Get(t.Context(), client.ObjectKey{Name: "mynode"}, &corev1.Node{})), "the label says whose it is")
	})
}

func TestWhatSomebodyElseNamedLikeItIsLeftBehind(t *testing.T) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "mynode", Namespace: "liqo-tenant-milan"}}
	binding := ForgeClusterRoleBinding(virtualNode(nil))
	binding.Subjects = []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "auditors"}}
	w := pass(t, ended(virtualNode(nil)), append(peered(kubeconfig), account, binding)...)
	assert.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(account), account))
	assert.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(binding), binding))
	assert.Nil(t, w.vn)
	require.Len(t, w.events, 1)
	assert.Contains(t, w.events[0], `NameTaken ClusterRoleBinding liqo-node-mynode stays: it binds ClusterRole liqo-virtual-kubelet-local to Group auditors`)
}

func TestANameThatIsTakenIsSaidInTheCondition(t *testing.T) {
	const another = "delete this VirtualNode, and create it with another name"
	stray := ForgeClusterRoleBinding(rival("paris"))
	powerful := forgeClusterRoleBinding(virtualNode(nil), OwnRoleName(virtualNode(nil)), "cluster-admin")
	for name, tc := range map[string]struct {
		existing []client.Object
		want     []string
	}{
		"by another VirtualNode": {append(bound(rival("paris")), rival("paris")),
			[]string{"VirtualNode liqo-tenant-paris/mynode has the same name, and ClusterRoleBinding liqo-node-mynode is for its virtual kubelet: " + another}},
		"by one that is gone and left its binding": {[]client.Object{stray},
			[]string{"ClusterRoleBinding liqo-node-mynode binds ClusterRole liqo-virtual-kubelet-local to ServiceAccount liqo-tenant-paris/mynode",
				"delete it if nobody needs it, or " + another}},
		"by a binding to another role": {[]client.Object{powerful},
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

func TestOfTwoThatAreBoundAtOnceOneIsTold(t *testing.T) {
	other := rival("paris")
	w := pass(t, virtualNode(nil), other) // Only to have a client.
	for _, obj := range append(peered(kubeconfig), bound(other)...) {
		require.NoError(t, w.Create(t.Context(), obj))
	}
	behind := interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if _, ok := obj.(*rbacv1.ClusterRoleBinding); ok {
				return apierrors.NewNotFound(rbacv1.Resource("clusterrolebindings"), key.Name)
			}
			return c.Get(ctx, key, obj, opts...)
		},
	})
	r := &Reconciler{Client: behind, APIReader: w.Client, Events: events.NewFakeRecorder(20), Clock: testclock.NewFakePassiveClock(time.Unix(0, 0))}
	_, err := r.Reconcile(t.Context(), w.vn)
	require.NoError(t, err)
	assert.Contains(t, conditions(w.vn)["VirtualKubelet"], "VirtualNode liqo-tenant-paris/mynode has the same name")
}
