package chart_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
)

// TestInstallBesideWhatAClusterHas runs Helm's own code in a cluster that is not new.
func TestInstallBesideWhatAClusterHas(t *testing.T) {
	t.Parallel()
	r := newRelease(t)
	chrt := currentChart(t)
	values := lifecycleValues("1.0")
	delete(values, "clusterID")
	adopted := r.createForeignCRD(t, "renews.authentication.liqo.io")

	// Helm 3 leaves a CRD as it is, and Helm 4 applies it: skipping makes both the same.
	t.Run("CRDs of another version are not used", func(t *testing.T) {
		err := r.installWith(t, chrt, values, true)
		require.ErrorContains(t, err, "the cluster has no or other versions of the CustomResourceDefinitions ")
		require.ErrorContains(t, err, "renews.authentication.liqo.io")
		require.ErrorContains(t, err, "and then helm install again")
	})
	// Its CRDs are there, too: the error must not ask the user to replace them.
	t.Run("the reference in the same cluster is a conflict", func(t *testing.T) {
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "liqo-virtual-kubelet-local", Labels: map[string]string{"app.kubernetes.io/part-of": "liqo"}}}
		require.NoError(t, r.admin.Create(t.Context(), role))
		err := r.installWith(t, chrt, values, true)
		require.ErrorContains(t, err, "the ClusterRole liqo-virtual-kubelet-local belongs to liqo: the system that Longshore replaces is installed in this cluster")
		require.NoError(t, r.admin.Delete(t.Context(), role))
	})
	r.applyCRDs(t, chrt)
	t.Run("a name is made for the cluster", func(t *testing.T) {
		planetest.Until(t, func(look planetest.T) bool { return r.installWith(look, chrt, values, false) == nil }, established, poll, "the CRDs are served")
		assert.Equal(t, "cluster-"+string(r.clusterUID(t))[:8], r.clusterID(t))
		assert.Equal(t, adopted, r.crdUIDs(t)["renews.authentication.liqo.io"], "the CRD was changed in place")
	})
	t.Run("helm test checks it", r.testHelmTest)
	t.Run("an upgrade keeps the name", func(t *testing.T) {
		before := r.clusterID(t)
		require.NoError(t, r.upgradeWith(t, chrt, values, false))
		assert.Equal(t, before, r.clusterID(t))
	})
	t.Run("and gives no other one", func(t *testing.T) {
		err := r.upgrade(t, chrt, "1.0", false)
		require.ErrorContains(t, err, `clusterID cannot change from "`+r.clusterID(t)+`" to "rome": the peers know this cluster by it`)
	})
}

// createForeignCRD creates a CRD of the chart as another release of the kind would have it.
func (r *release) createForeignCRD(t *testing.T, name string) types.UID {
	t.Helper()
	for _, crd := range currentChart(t).CRDObjects() {
		object := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal(crd.File.Data, &object.Object))
		if object.GetName() != name {
			continue
		}
		object.SetAnnotations(nil)
		require.NoError(t, r.admin.Create(t.Context(), object))
		return object.GetUID()
	}
	require.Failf(t, "not in the chart", "CRD %s", name)
	return ""
}

func (r *release) clusterUID(t *testing.T) types.UID {
	t.Helper()
	namespace := &corev1.Namespace{}
	require.NoError(t, r.admin.Get(t.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, namespace))
	return namespace.UID
}

func (r *release) clusterID(t *testing.T) string {
	t.Helper()
	configMap := &corev1.ConfigMap{}
	require.NoError(t, r.admin.Get(t.Context(), client.ObjectKey{Namespace: "longshore", Name: "liqo-clusterid-configmap"}, configMap))
	return configMap.Data["CLUSTER_ID"]
}
