package planetest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// A test finds nothing of the one before it, and what that changed is as it was.
func TestTestsShareAClusterOneAfterTheOther(t *testing.T) {
	foreign := schema.GroupVersionResource{Group: "offloading.liqo.io", Version: "v1beta1", Resource: "namespaceoffloadings"}
	var first string
	t.Run("a test leaves objects", func(t *testing.T) {
		c := ForTest(t, "rome")
		first = c.Dir
		SimulateNodes(t, c, "worker")
		client := Client(t, c)
		_, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.CreateOptions{})
		require.NoError(t, err)
		labels := map[string]string{"app": "web"}
		_, err = client.AppsV1().Deployments("shop").Create(t.Context(), &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "web", Finalizers: []string{"example.com/never"}},
			Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](20), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Finalizers: []string{"example.com/never"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "shop.example/web:1"}}},
			}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		Until(t, func(T) bool { return len(podsOf(t, client)) == 20 }, NodeTimeout, poll, "its pods exist")
		others, err := dynamic.NewForConfig(c.RESTConfig())
		require.NoError(t, err)
		_, err = others.Resource(foreign).Namespace("shop").Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "offloading.liqo.io/v1beta1", "kind": "NamespaceOffloading", "metadata": map[string]any{"name": "offloading"},
			"spec": map[string]any{"clusterSelector": map[string]any{"nodeSelectorTerms": []any{}}},
		}}, metav1.CreateOptions{})
		require.NoError(t, err)
		require.NoError(t, client.RbacV1().ClusterRoles().Delete(t.Context(), "system:node", metav1.DeleteOptions{}))
		role, err := client.RbacV1().ClusterRoles().Get(t.Context(), "edit", metav1.GetOptions{})
		require.NoError(t, err)
		role.Labels["changed"] = "true"
		_, err = client.RbacV1().ClusterRoles().Update(t.Context(), role, metav1.UpdateOptions{})
		require.NoError(t, err)
	})
	t.Run("the next one has the same cluster, in which they are not", func(t *testing.T) {
		c := ForTest(t, "rome")
		require.Equal(t, first, c.Dir)
		client := Client(t, c)
		assert.Empty(t, podsOf(t, client))
		for what, err := range map[string]error{
			"namespace": second(client.CoreV1().Namespaces().Get(t.Context(), "shop", metav1.GetOptions{})),
			"node":      second(client.CoreV1().Nodes().Get(t.Context(), "worker", metav1.GetOptions{})),
		} {
			assert.True(t, apierrors.IsNotFound(err), "%s: %v", what, err)
		}
		others, err := dynamic.NewForConfig(c.RESTConfig())
		require.NoError(t, err)
		list, err := others.Resource(foreign).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err, "the CustomResourceDefinitions stay")
		assert.Empty(t, list.Items)
		require.NoError(t, second(client.RbacV1().ClusterRoles().Get(t.Context(), "system:node", metav1.GetOptions{})))
		role, err := client.RbacV1().ClusterRoles().Get(t.Context(), "edit", metav1.GetOptions{})
		require.NoError(t, err)
		assert.NotContains(t, role.Labels, "changed")
	})
	t.Run("one that stops it has it to itself", func(t *testing.T) {
		require.NoError(t, ForTest(t, "rome").Kill())
	})
	t.Run("and the next one gets another", func(t *testing.T) {
		assert.NotEqual(t, first, ForTest(t, "rome").Dir)
		assert.NoDirExists(t, first)
	})
}

func podsOf(t *testing.T, client kubernetes.Interface) []corev1.Pod {
	t.Helper()
	pods, err := client.CoreV1().Pods(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	return pods.Items
}

func second[T any](_ T, err error) error { return err }
