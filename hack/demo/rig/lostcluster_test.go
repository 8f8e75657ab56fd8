package rig_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/hack/demo/rig"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// deploymentOn is a Deployment with one pod, which prefers a virtual node.
func deploymentOn(namespace, node string) *appsv1.Deployment {
	labels := map[string]string{"app": "moves"}
	template := pod("moves").Spec
	template.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 100, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
			}}},
		}},
	}}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "moves"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: template},
		},
	}
}

// runsOn reports whether the only pods of a Deployment of deploymentOn run on a virtual node.
func runsOn(t planetest.T, c *rig.Cluster, namespace, node string) bool {
	t.Helper()
	list := &corev1.PodList{}
	require.NoError(t, c.List(t.Context(), list, client.InNamespace(namespace), client.MatchingLabels{"app": "moves"}))
	return len(list.Items) == 1 && list.Items[0].Spec.NodeName == node && list.Items[0].Status.Phase == corev1.PodRunning
}

// loseProvider stops rome for ever. Milan, whose pods run there, deletes the virtual node and stops
// to offload a namespace, both of which wait for rome until its administrator gives it up.
func (c *threeClusters) loseProvider(t *testing.T) {
	c.offload(t, c.milan, "shelf")
	require.NoError(t, c.milan.Create(t.Context(), deploymentOn("books", "rome")))
	require.NoError(t, c.milan.Create(t.Context(), deploymentOn("shelf", "rome")))
	eventually(t, "the pods run in rome", func(t planetest.T) bool {
		return runsOn(t, c.milan.Cluster, "books", "rome") && runsOn(t, c.milan.Cluster, "shelf", "rome")
	})

	require.NoError(t, c.rome.Plane.Crash())
	out, errs, code := c.shell.run(t, "unpeer --kubeconfig @milan --remote-kubeconfig @rome", "")
	assert.Equal(t, 1, code, "%s%s", out, errs)
	gone := []client.Object{
		&offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "rome"}},
		&offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "shelf", Name: "offloading"}},
	}
	for _, object := range gone {
		require.NoError(t, c.milan.Delete(t.Context(), object))
	}
	const unpeer = "force unpeer rome --kubeconfig @milan --skip-confirm"
	eventually(t, "rome counts as lost, and is given up", func(t planetest.T) bool {
		out, _, code := c.shell.run(t, unpeer, "")
		return code == 0 && assert.Equal(t, "cluster rome unpeered\n", out)
	})
	gone = append(gone, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "rome"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo-tenant-rome"}})
	for _, object := range gone {
		eventually(t, object.GetName()+" is gone", func(t planetest.T) bool {
			return apierrors.IsNotFound(c.milan.Get(t.Context(), client.ObjectKeyFromObject(object), object))
		})
	}
	eventually(t, "the pod runs in the other provider", func(t planetest.T) bool {
		return runsOn(t, c.milan.Cluster, "books", "turin")
	})
	assert.Equal(t, "namespace/books unoffloaded\n", c.shell.ok(t, "unoffload namespace books --kubeconfig @milan --skip-confirm"))
}

// loseConsumer has turin remove rome, which is lost, with the pods that run for it. Its other
// consumer stays.
func (c *threeClusters) loseConsumer(t *testing.T) {
	require.Len(t, pods(t, c.turin.Cluster, "shop-rome", nil), 1)
	for range 2 {
		assert.Equal(t, "cluster rome unpeered\n", c.shell.ok(t, "force unpeer rome --kubeconfig @turin --skip-confirm"))
	}
	ofRome := client.MatchingLabels{"liqo.io/remote-cluster-id": "rome"}
	for what, list := range map[string]client.ObjectList{
		"namespaces": &corev1.NamespaceList{}, "Tenants": &authv1beta1.TenantList{}, "ResourceSlices": &authv1beta1.ResourceSliceList{},
		"NamespaceMaps": &offloadingv1beta1.NamespaceMapList{}, "Secrets": &corev1.SecretList{}, "ClusterRoleBindings": &rbacv1.ClusterRoleBindingList{},
	} {
		eventually(t, "no "+what+" of rome are left", func(t planetest.T) bool {
			require.NoError(t, c.turin.List(t.Context(), list, ofRome))
			return meta.LenList(list) == 0
		})
	}
	quotas := &offloadingv1beta1.QuotaList{}
	require.NoError(t, c.turin.List(t.Context(), quotas))
	assert.Len(t, quotas.Items, 1, "the Quota of milan")
	eventually(t, "turin has no problem", func(t planetest.T) bool {
		out, _, code := c.shell.run(t, "status --kubeconfig @turin", "")
		return assert.Zero(t, code, out)
	})
}
