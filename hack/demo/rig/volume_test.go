package rig_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
)

// volumeLines has a volume, but no containers: files are copied on real nodes only.
func volumeLines(t *testing.T, s *shell) {
	rome := s.rig.Rome
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: "shop"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: modes, StorageClassName: ptr.To("manual"), Resources: corev1.VolumeResourceRequirements{Requests: size}, VolumeName: "data",
		},
	}
	for _, object := range []client.Object{
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "manual"}, Provisioner: "kubernetes.io/no-provisioner"},
		&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: modes, StorageClassName: "manual",
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
		}},
		claim,
	} {
		require.NoError(t, rome.Create(t.Context(), object))
	}
	const move = "move volume data -n shop --kubeconfig @rome --target-node "
	s.fails(t, "move volume data -n shop --kubeconfig @rome", 2, "set --target-node")
	s.fails(t, "move volume other -n shop --kubeconfig @rome --target-node milan", 1, "claim shop/other does not exist")
	s.fails(t, move+"oslo", 1, "node oslo does not exist")
	eventually(t, "the claim is bound", func(t planetest.T) bool {
		_, errs, code := s.run(t, move+"milan", "")
		return code == 1 && strings.Contains(errs, "set --storage-class to one with the provisioner liqo.io/storage")
	})
	_, errs, code := s.run(t, move+"milan --storage-class liqo --delete-source", "n\n")
	assert.Equal(t, 1, code)
	assert.Contains(t, errs, "not confirmed; nothing was changed")

	s.fails(t, move+"milan --storage-class liqo --timeout 3s --delete-source --skip-confirm", 1, "not done after --timeout 3s; the command can be repeated")
	require.NoError(t, rome.Get(t.Context(), client.ObjectKeyFromObject(claim), claim))
	assert.Nil(t, claim.DeletionTimestamp, "the claim stays")
	eventually(t, "no pod of the copy is left", func(t planetest.T) bool {
		left := &corev1.PodList{}
		require.NoError(t, rome.List(t.Context(), left, client.InNamespace("shop"), client.HasLabels{"longshore.dev/copies-volume"}))
		return len(left.Items) == 0
	})
	copied := &corev1.PersistentVolumeClaim{}
	require.NoError(t, rome.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "data-milan"}, copied))
	assert.Equal(t, string(claim.UID), copied.Annotations["longshore.dev/moved-from"])

	writer := pod("writer")
	writer.Namespace = "shop"
	writer.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
	}}}
	require.NoError(t, rome.Create(t.Context(), writer))
	s.fails(t, move+"milan --storage-class liqo", 1, "claim data is mounted by pod writer, which could change it while it is copied")
	for _, object := range []client.Object{writer, claim, copied} {
		require.NoError(t, rome.Delete(t.Context(), object))
	}
}
