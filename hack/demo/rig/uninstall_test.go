package rig_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/hack/demo/rig"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// uninstallLines runs helm uninstall in a consumer that is peered and has pods and a volume in its
// provider, while all components of both clusters run, and installs the chart again.
func uninstallLines(t *testing.T, s *shell) {
	rome, milan := s.rig.Rome, s.rig.Milan
	createStorage(t, s.rig)
	s.ok(t, "peer --kubeconfig @rome --remote-kubeconfig @milan")
	require.NoError(t, rome.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "leaving"}}))
	s.ok(t, "offload namespace leaving --pod-offloading-strategy Remote --kubeconfig @rome --timeout 4m")
	createVolumeAndPods(t, rome, "leaving")
	eventually(t, "the pods run in milan", func(t planetest.T) bool {
		running := 0
		for _, p := range pods(t, milan, "leaving-rome", nil) {
			if p.Status.Phase == corev1.PodRunning {
				running++
			}
		}
		return running == 2
	})

	for _, command := range []string{"delete resourceslice milan --kubeconfig @rome", "unpeer --kubeconfig @rome --remote-kubeconfig @milan"} {
		s.fails(t, command, 2, "These claims lose their data, unless the volumes are retained: leaving/data. Continue? [y/N]")
	}
	reader, before := startHowTos(t, s.rig), hookLogs(t, s.logs)
	reader.runs(t, "helm --kubeconfig rome.kubeconfig uninstall longshore --namespace longshore")
	after := slices.DeleteFunc(hookLogs(t, s.logs), func(file string) bool { return slices.Contains(before, file) })
	require.Len(t, after, 1, "the hook succeeds at once")
	printed, err := os.ReadFile(after[0])
	require.NoError(t, err)
	assert.Regexp(t, `(?s)offloading of namespaces: 1\n.*virtual nodes: 1\n.*identities: `, string(printed))
	assert.NotContains(t, string(printed), "did not end", "each stage ends in time")
	withdrawn(t, s.rig)
	requireNoFinalizers(t, rome)
	claim := &corev1.PersistentVolumeClaim{}
	require.NoError(t, rome.Get(t.Context(), client.ObjectKey{Namespace: "leaving", Name: "data"}, claim), "the claim is the user's")

	for _, name := range []string{"leaving", tenantInRome} {
		require.NoError(t, rome.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
		eventually(t, "namespace "+name+" can be deleted", func(t planetest.T) bool {
			return apierrors.IsNotFound(rome.Get(t.Context(), client.ObjectKey{Name: name}, &corev1.Namespace{}))
		})
	}
	reader.runs(t, "helm --kubeconfig rome.kubeconfig install longshore charts/longshore --namespace longshore --set clusterID=rome --wait")
	assert.Contains(t, s.ok(t, "unpeer --kubeconfig @rome --remote-kubeconfig @milan --delete-namespaces"), "NotPeered")
}

// createVolumeAndPods makes a pod with a claim and another pod.
func createVolumeAndPods(t *testing.T, c *rig.Cluster, namespace string) {
	t.Helper()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: namespace},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: ptr.To("liqo"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: oneGiB()},
		},
	}
	database, web := pod("database"), pod("web")
	database.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
	}}}
	database.Namespace, web.Namespace = namespace, namespace
	for _, object := range []client.Object{claim, database, web} {
		require.NoError(t, c.Create(t.Context(), object))
	}
}

// hookLogs returns the files with what the pods of the hook of helm uninstall printed in rome.
func hookLogs(t *testing.T, logs string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(logs, rig.Consumer, "longshore_longshore-uninstall-*.log"))
	require.NoError(t, err)
	return files
}

// withdrawn checks that no object of rome is left as a consumer, on either side.
func withdrawn(t *testing.T, r *rig.Rig) {
	t.Helper()
	for what, list := range map[string]client.ObjectList{
		"NamespaceOffloadings": &offloadingv1beta1.NamespaceOffloadingList{}, "VirtualNodes": &offloadingv1beta1.VirtualNodeList{},
		"NamespaceMaps": &offloadingv1beta1.NamespaceMapList{}, "ShadowPods": &offloadingv1beta1.ShadowPodList{}, "Quotas": &offloadingv1beta1.QuotaList{},
		"Identities": &authv1beta1.IdentityList{}, "ResourceSlices": &authv1beta1.ResourceSliceList{}, "Renews": &authv1beta1.RenewList{},
	} {
		for _, c := range []*rig.Cluster{r.Rome, r.Milan} {
			require.NoError(t, c.List(t.Context(), list))
			assert.Zero(t, meta.LenList(list), "%s in %s", what, c.Name)
		}
	}
	peers := &liqocorev1beta1.ForeignClusterList{}
	require.NoError(t, r.Rome.List(t.Context(), peers))
	assert.Empty(t, peers.Items)
	assert.True(t, apierrors.IsNotFound(r.Rome.Get(t.Context(), client.ObjectKey{Name: "milan"}, &corev1.Node{})))
	eventually(t, "the remote namespace is gone", func(t planetest.T) bool {
		return apierrors.IsNotFound(r.Milan.Get(t.Context(), client.ObjectKey{Name: "leaving-rome"}, &corev1.Namespace{}))
	})
}

// requireNoFinalizers checks what the stages do not delete.
func requireNoFinalizers(t *testing.T, c *rig.Cluster) {
	t.Helper()
	for _, list := range []client.ObjectList{&corev1.SecretList{}, &rbacv1.RoleBindingList{}} {
		require.NoError(t, c.List(t.Context(), list))
		require.NoError(t, meta.EachListItem(list, func(object runtime.Object) error {
			found, err := meta.Accessor(object)
			assert.Empty(t, found.GetFinalizers(), "%T %s/%s", object, found.GetNamespace(), found.GetName())
			return err
		}))
	}
	claims := &corev1.PersistentVolumeClaimList{}
	require.NoError(t, c.List(t.Context(), claims))
	for i := range claims.Items {
		assert.NotContains(t, claims.Items[i].Finalizers, offloadingv1beta1.ClaimFinalizer)
	}
}
